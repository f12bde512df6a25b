//! Real processes, as the user who runs the tests, with all that the machine allows and with none of it; and once more
//! as a user without privileges if that is root.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set its stage stops there")]

mod attached;
mod ends;
mod files;
mod isolation;
mod runs;
mod sessions;
mod stays;
mod unprivileged;
mod world;
