//! A pass.
fn main() {}
