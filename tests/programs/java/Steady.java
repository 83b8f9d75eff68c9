import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;

/** Allocates, collects, throws and compiles, and prints a line each time, until the file that is named exists, or its
 * folder is gone. */
public class Steady {
    public static void main(String[] words) throws Exception {
        Path sign = Path.of(words[0]);
        while (!Files.exists(sign) && Files.exists(sign.getParent())) {
            ArrayList<String> list = new ArrayList<>();
            for (int i = 0; i < 20_000; i++) list.add("x" + i);
            int caught = 0;
            for (int i = 0; i < 100; i++) {
                try { list.get(list.size() + i); } catch (IndexOutOfBoundsException why) { caught++; }
                try { ((Object) null).toString(); } catch (NullPointerException why) { caught++; }
            }
            System.gc();
            System.out.println(list.size() + " " + caught);
        }
    }
}
