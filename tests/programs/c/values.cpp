// As values.c, in C++: texts of the standard library, and calls that are left by an exception.

#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

namespace shop {

struct order {
    int id;
    std::string name;
    bool paid;
    virtual ~order() {}
};

static volatile bool always = true;

[[gnu::noinline]] int check(const std::string &name, std::string_view view, std::string by_value)
{
    return always ? int(name.size() + view.size() + by_value.size()) : 0;
}

[[gnu::noinline]] const order &checkout(const order &o, double discount)
{
    if (discount > 1)
        throw std::runtime_error("no such discount");
    return o;
}

template <typename T> [[gnu::noinline]] T twice(T value) { return always ? value + value : value; }

}

int main()
{
    shop::order order;
    order.id = 17;
    order.name = "a name that is too long to be kept inside";
    order.paid = true;
    std::printf("%d\n", shop::check("short", std::string_view("viewed only", 6), "by value"));
    std::printf("%d\n", shop::checkout(order, 0.5).id);
    try {
        shop::checkout(order, 2);
    } catch (const std::exception &why) {
        std::printf("%s\n", why.what());
    }
    std::printf("%d %ld\n", shop::twice(21), shop::twice(-4L));
}
