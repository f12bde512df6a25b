//! Whether the program of an image finds the address of a name: an image from scratch has no files that tell a C library how, and a program that
//! is linked statically has no library to ask.
//!
//! ```text
//!  unshare ─▶ a network of its own ─┬─ a DNS server at 127.0.0.1:53, which knows one name
//!                                   ├─ chroot to the files of the image ─▶ the program, whose kubeconfig has that name
//!                                   └─ a port at 127.0.0.1: the name is found when the program connects
//! ```

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use nix::unistd::Uid;

use crate::image::ImageSpec;
use crate::packages::{find_program, search_path};

/// The only name that there is.
const NAME: &str = "apiserver.pillion.test";
/// What the image does not have and a pod does.
const RESOLV_CONF: &str = "nameserver 127.0.0.1\n";
const KUBECONFIG: &str = "/kubeconfig";
/// Without an authority the program would look for those of the system, of which an image from scratch has none.
const AUTHORITY: &str = "/ca.crt";
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the first program of an image in its files, with a kubeconfig whose server has a name.
///
/// # Errors
/// The program does not connect to the address of that name.
pub(crate) fn check(image: &ImageSpec) -> anyhow::Result<()> {
    let program = image.entrypoint.first().context("the image has a program")?;
    let folder = tempfile::tempdir()?;
    image.unpack(folder.path())?;
    std::fs::create_dir_all(folder.path().join("etc"))?;
    std::fs::write(folder.path().join("etc/resolv.conf"), RESOLV_CONF)?;
    let mut command = in_a_network_of_its_own()?;
    // Some systems allow this to root alone.
    if !Uid::effective().is_root() && !in_a_network_of_its_own()?.arg("true").status()?.success() {
        eprintln!("image: not checked whether names are found in {}: run as root for that", image.name);
        return Ok(());
    }
    command.arg(std::env::current_exe()?).arg("find-name").arg(folder.path()).arg(program);
    let status = command.env("PATH", search_path()).status().context("cannot start unshare")?;
    ensure!(status.success(), "in the image {} {program} does not find the address of a name", image.name);
    Ok(())
}

fn in_a_network_of_its_own() -> anyhow::Result<Command> {
    let mut command = Command::new(find_program("unshare").context("unshare is missing: install util-linux")?);
    if !Uid::effective().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--"]);
    Ok(command)
}

/// The other side: in a network of its own.
///
/// # Errors
/// The program ends, or does not connect in time.
pub fn find_name(root: &Path, program: &str) -> anyhow::Result<()> {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().context("cannot start ip")?;
    ensure!(up.success(), "cannot bring up the loopback");
    let names = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).context("cannot answer DNS")?;
    std::thread::spawn(move || answer_all(&names));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let server = format!("https://{NAME}:{}", listener.local_addr()?.port());
    let kubeconfig = serde_json::json!({
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": AUTHORITY}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    });
    let write = |path: &str, text: String| std::fs::write(root.join(path.trim_start_matches('/')), text);
    write(KUBECONFIG, kubeconfig.to_string())?;
    write(AUTHORITY, rcgen::generate_simple_self_signed([NAME.to_owned()])?.cert.pem())?;
    let mut command = Command::new(find_program("chroot").context("chroot is missing: install coreutils")?);
    command.arg(root).arg(program).args(["--kubeconfig", KUBECONFIG]).stdout(Stdio::null());
    let mut child = command.spawn().context("cannot start chroot")?;
    let found = wait(listener, || Ok(child.try_wait()?.is_some()));
    // It may have ended.
    let _ = child.kill();
    child.wait()?;
    found
}

/// Waits until the program connects, and looks now and then whether it has ended.
fn wait(listener: TcpListener, mut has_ended: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let (sender, connected) = mpsc::channel();
    std::thread::spawn(move || sender.send(listener.accept().is_ok()));
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Ok(is_connected) = connected.recv_timeout(Duration::from_millis(50)) {
            ensure!(is_connected, "cannot accept a connection");
            return Ok(());
        }
        ensure!(!has_ended()?, "the program ended before it connected to {NAME}");
    }
    bail!("the program did not connect to {NAME} within {} s", PATIENCE.as_secs())
}

fn answer_all(socket: &UdpSocket) {
    let mut buffer = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        if let Some(answer) = answer(&buffer[..length]) {
            // Who does not hear it asks again.
            let _ = socket.send_to(&answer, from);
        }
    }
}

/// Answers a question (RFC 1035): the one name has one IPv4 address, and nothing else is known.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    let labels = query.get(HEADER..)?;
    let end = labels.iter().position(|byte| *byte == 0)?;
    let question = labels.get(..end + 5)?;
    let name: Vec<u8> = NAME
        .split('.')
        .flat_map(|label| [&[u8::try_from(label.len()).unwrap_or(0)], label.as_bytes()].concat())
        .collect();
    let is_known = question.get(..end)?.eq_ignore_ascii_case(&name);
    let is_address = question.get(end + 1..)? == [0, 1, 0, 1];
    let answers = u8::from(is_known && is_address);
    let code = if is_known { 0 } else { 3 };
    let mut text = query.get(..2)?.to_vec();
    text.extend([0x81, 0x80 | code, 0, 1, 0, answers, 0, 0, 0, 0]);
    text.extend(question);
    if answers == 1 {
        // The name as above, an address of the internet, for a minute, four bytes.
        text.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A question as a resolver asks it.
    fn query(name: &str, kind: u8) -> Vec<u8> {
        let mut query = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend(label.as_bytes());
        }
        query.extend([0, 0, kind, 0, 1]);
        query
    }

    #[test]
    fn the_name_has_an_address_of_the_old_kind_and_no_other_name_is_known() {
        let found = answer(&query(NAME, 1)).unwrap();
        assert_eq!((&found[..4], found[7]), (&[7, 9, 0x81, 0x80][..], 1));
        assert!(found.ends_with(&[127, 0, 0, 1]));
        let newer = answer(&query(NAME, 28)).unwrap();
        assert_eq!((newer[3], newer[7]), (0x80, 0));
        let other = answer(&query("example.com", 1)).unwrap();
        assert_eq!((other[3], other[7]), (0x83, 0));
        assert_eq!(answer(b"short"), None);
    }
}
