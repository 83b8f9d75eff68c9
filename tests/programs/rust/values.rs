//! As `values.c`, in Rust.

use std::hint::black_box;

pub struct Order {
    id: u32,
    paid: bool,
}

#[derive(Clone, Copy)]
pub enum Color {
    Red = 1,
    Green = 7,
}

#[inline(never)]
pub fn parse(text: &str, at: usize, negative: bool) -> i64 {
    let number: i64 = black_box(text)[at..].parse().unwrap();
    if negative { -number } else { number }
}

#[inline(never)]
pub fn checkout(order: &Order, color: Color, discount: f64) -> f64 {
    black_box(order.id as f64 * discount + if order.paid { 1.0 } else { 0.0 } * color as u8 as f64)
}

#[inline(never)]
pub fn name(order: &Order) -> &'static str {
    if black_box(order.paid) { "a paid order" } else { "an order" }
}

fn main() {
    // The compiler does not know what they are called with: it would not pass it.
    let order = black_box(Order { id: 17, paid: true });
    println!("{}", parse(black_box("id=42"), black_box(3), black_box(true)));
    println!("{}", checkout(&order, black_box(Color::Green), black_box(0.5)));
    println!("{}", checkout(&order, black_box(Color::Red), black_box(2.0)));
    println!("{}", name(black_box(&order)));
}
