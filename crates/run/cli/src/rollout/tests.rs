//! What is printed, of sets and pods made by hand; and the commands on a cluster in this process.

mod cluster;
mod rendered;
