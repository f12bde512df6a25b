//! Attacks: none writes outside of `fileDir`, signals a stranger or loses the old file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;

use support::{Agent, Cluster, Site, eventually, sha256};

struct Scene {
    agent: Agent,
    site: Site,
    cluster: Cluster,
}

impl Scene {
    /// An agent that runs v1 of app.conf.
    async fn new(more: &str) -> Scene {
        let (cluster, site) = (Cluster::start().await, Site::start().await);
        site.set("/app.conf", 200, "old");
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "listen: 127.0.0.1:0\nallowedHosts: ['{}']\nplugins:\n- name: hot_update\n  config:\n    fileDir: {}\n    unpack: true\n    maxBytes: 1000000\n    maxUnpackedBytes: 1000000\n    fetchTimeoutSeconds: 60\n    reloadTimeoutSeconds: 1\n    loadPatchType: signal\n    signal: {{processName: 'nginx: master process nginx', signalName: SIGHUP}}\n{more}",
            site.host(),
            folder.path().join("files").display(),
        );
        let agent = Agent::start_in(folder, &cluster, &config, "");
        let scene = Scene { agent, site, cluster };
        let (status, text) = scene.post("v1", "/app.conf", b"old", "").await;
        assert_eq!(status, 200, "{text}");
        scene.agent.hups_reach(1).await;
        scene
    }

    async fn post(&self, version: &str, path: &str, content: &[u8], more: &str) -> (u16, String) {
        self.agent
            .post(&format!("version={version}&url={}&sha256={}{more}", self.site.url(path), sha256(content)))
            .await
    }

    /// The old file is in place, nobody was signalled again, and nothing is beside it.
    fn unharmed(&self, what: &str) {
        assert_eq!(std::fs::read_to_string(self.agent.files().join("app.conf")).unwrap(), "old", "{what}");
        assert_eq!(self.agent.hups(), 1, "{what}");
        assert_eq!(names(&self.agent.files()), [".pillion-agent", "app.conf"], "{what}");
        assert!(!self.agent.folder.path().join("evil").exists(), "{what}");
        let left = names(&self.agent.files().join(".pillion-agent"));
        assert_eq!(left, ["current.json"], "{what}: nothing is left over");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn archive(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    build(&mut builder);
    builder.into_inner().unwrap()
}

/// An entry whose name the tar library would refuse to write.
fn entry(builder: &mut tar::Builder<Vec<u8>>, name: &str, kind: tar::EntryType, link: &str, data: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(data.len() as u64);
    header.set_cksum();
    builder.append(&header, data).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_lead_elsewhere_are_refused() {
    let scene = Scene::new("").await;
    scene.site.set("/x", 200, "evil");
    for file in ["../evil", "..", ".", "/tmp/evil", "a/b", "%2e%2e%2fevil", ".pillion-agent", "a%00b"] {
        let (status, text) = scene.post("v2", "/x", b"evil", &format!("&file={file}")).await;
        assert_eq!(status, 400, "{file}: {text}");
    }
    for path in ["/", "/..", "/a/..", "/."] {
        assert_eq!(scene.post("v2", path, b"evil", "").await.0, 400, "{path}");
    }
    scene.unharmed("names");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn symbolic_links_of_the_app_are_replaced_and_not_followed() {
    let scene = Scene::new("").await;
    let evil = scene.agent.folder.path().join("evil");
    std::os::unix::fs::symlink(&evil, scene.agent.files().join("link.conf")).unwrap();
    scene.site.set("/link.conf", 200, "new");
    assert_eq!(scene.post("v2", "/link.conf", b"new", "").await.0, 200);
    assert!(!evil.exists(), "the link was not followed");
    let file = scene.agent.files().join("link.conf");
    assert!(file.symlink_metadata().unwrap().is_file());
    assert_eq!(std::fs::read_to_string(file).unwrap(), "new");
    // The agent's own directory as a link is refused altogether.
    let own = scene.agent.files().join(".pillion-agent");
    std::fs::remove_dir_all(&own).unwrap();
    std::fs::create_dir(&evil).unwrap();
    std::os::unix::fs::symlink(&evil, &own).unwrap();
    assert_eq!(scene.post("v3", "/link.conf", b"new", "").await.0, 500);
    assert_eq!(names(&evil), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archives_stay_in_their_directory() {
    let scene = Scene::new("").await;
    let regular = tar::EntryType::Regular;
    let table = [
        ("traversal", archive(|tar| entry(tar, "../../evil", regular, "", b"x"))),
        ("deep traversal", archive(|tar| entry(tar, "a/b/../../../../evil", regular, "", b"x"))),
        ("absolute", archive(|tar| entry(tar, "/tmp/evil-absolute", regular, "", b"x"))),
        ("symlink", archive(|tar| entry(tar, "link", tar::EntryType::Symlink, "/etc", b""))),
        (
            "write through a symlink",
            archive(|tar| {
                entry(tar, "link", tar::EntryType::Symlink, "..", b"");
                entry(tar, "link/evil", regular, "", b"x");
            }),
        ),
        ("hard link", archive(|tar| entry(tar, "link", tar::EntryType::Link, "/etc/passwd", b""))),
        ("device", archive(|tar| entry(tar, "null", tar::EntryType::Char, "", b""))),
        (
            "twice",
            archive(|tar| {
                entry(tar, "a", regular, "", b"x");
                entry(tar, "a", regular, "", b"y");
            }),
        ),
        ("cut off", archive(|tar| entry(tar, "a", regular, "", &[0; 2000]))[..1200].to_vec()),
        ("too deep", nested(65)),
        ("far too deep", nested(400)),
    ];
    for (what, bytes) in table {
        scene.site.set("/site.tar", 200, &bytes);
        let (status, text) = scene.post("v2", "/site.tar", &bytes, "").await;
        assert_eq!(status, 500, "{what}: {text}");
        scene.unharmed(what);
    }
    assert!(!Path::new("/tmp/evil-absolute").exists());
    // What an older agent could not remove does not stop an update.
    let mut left = scene.agent.files().join(".pillion-agent/staged");
    left.push("d/".repeat(200));
    std::fs::create_dir_all(&left).unwrap();
    scene.site.set("/site.tar", 200, nested(60));
    let (status, text) = scene.post("v2", "/site.tar", &nested(60), "").await;
    assert_eq!(status, 200, "{text}");
    assert_eq!(names(&scene.agent.files().join(".pillion-agent")), ["current.json"]);
}

/// A file in so many directories.
fn nested(depth: usize) -> Vec<u8> {
    archive(|tar| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(1);
        tar.append_data(&mut header, format!("{}file", "d/".repeat(depth)), b"x".as_slice()).unwrap();
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archives_are_unpacked_and_bombs_are_not() {
    use std::io::Write as _;
    let scene = Scene::new("").await;
    let zipped = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let big = archive(|tar| entry(tar, "a", tar::EntryType::Regular, "", &vec![0; 50_000_000]));
    let many = archive(|tar| (0..20_000).for_each(|n| entry(tar, &format!("f{n}"), tar::EntryType::Regular, "", b"")));
    for (what, bytes) in
        [("large", zipped(&big)), ("many", zipped(&many)), ("not an archive", zipped(&vec![7; 30_000_000]))]
    {
        assert!(bytes.len() < 1_000_000, "{what}");
        scene.site.set("/site.tar.gz", 200, &bytes);
        let (status, text) = scene.post("v2", "/site.tar.gz", &bytes, "").await;
        assert_eq!(status, 500, "{what}: {text}");
        scene.unharmed(what);
    }
    let good = zipped(&archive(|tar| {
        entry(tar, "a/b/c.conf", tar::EntryType::Regular, "", b"deep");
        entry(tar, "top.conf", tar::EntryType::Regular, "", b"top");
    }));
    scene.site.set("/site.tar.gz", 200, &good);
    let (status, text) = scene.post("v2", "/site.tar.gz", &good, "").await;
    assert_eq!(status, 200, "{text}");
    assert_eq!(std::fs::read_to_string(scene.agent.files().join("site/a/b/c.conf")).unwrap(), "deep");
    assert_eq!(names(&scene.agent.files()), [".pillion-agent", "app.conf", "site"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_fetched_is_what_was_asked_for() {
    let scene = Scene::new("").await;
    let other = Site::start().await;
    other.set("/app.conf", 200, "evil");
    let sum = sha256(b"evil");
    let form = |url: &str| format!("version=v2&url={url}&sha256={sum}&file=app.conf");
    // Hosts that are not allowed: asked for, redirected to, and loopback by other names.
    for url in [
        other.url("/app.conf"),
        format!("http://localhost:{}/app.conf", scene.site.port),
        "http://169.254.169.254/latest".to_owned(),
    ] {
        let (status, text) = scene.agent.post(&form(&url)).await;
        assert_eq!(status, 403, "{url}: {text}");
    }
    for location in [
        other.url("/app.conf"),
        format!("http://localhost:{}/x", other.port),
        "file:///etc/passwd".to_owned(),
        "//evil.example.com/x".to_owned(),
    ] {
        scene.site.set_with("/moved", 302, "", &[("location", &location)]);
        let (status, text) = scene.agent.post(&form(&scene.site.url("/moved"))).await;
        assert_eq!(status, 500, "{location}: {text}");
        scene.unharmed(&location);
    }
    scene.site.set_with("/loop", 302, "", &[("location", "/loop")]);
    assert_eq!(scene.agent.post(&form(&scene.site.url("/loop"))).await.0, 500);
    assert_eq!(other.seen.lock().unwrap().len(), 0, "nobody else was asked");
    // A body without end, a wrong checksum, a wrong size, and a page instead of a file.
    assert_eq!(scene.agent.post(&form(&scene.site.url("/endless"))).await.0, 500);
    scene.site.set("/app.conf", 200, "other");
    let (_, text) = scene.agent.post(&form(&scene.site.url("/app.conf"))).await;
    assert!(text.contains("the SHA-256 of the file is"), "{text}");
    scene.site.set("/app.conf", 200, "evil");
    let (_, text) = scene.agent.post(&format!("{}&size=5", form(&scene.site.url("/app.conf")))).await;
    assert!(text.contains("the file has 4 bytes and not 5"), "{text}");
    let (status, text) = scene
        .agent
        .post(&format!(
            "version=v2&url={}&sha256={}&file=app.conf",
            scene.site.url("/gone"),
            sha256(b"<html>not found</html>")
        ))
        .await;
    assert_eq!(status, 500);
    assert!(text.contains("404"), "{text}");
    scene.unharmed("fetched");
    // Without a checksum nothing is fetched at all.
    let (status, text) = scene.agent.post(&format!("version=v2&url={}", scene.site.url("/app.conf"))).await;
    assert_eq!(status, 403);
    assert!(text.contains("`requireChecksum: false`"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_token_of_the_secret_opens() {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    let secret = |token: &str| serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "agent"}, "stringData": {"token": token}});
    cluster.create("/api/v1/namespaces/default/secrets", secret("s3cret")).await;
    site.set("/app.conf", 200, "new");
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "listen: 0.0.0.0:0\ntokenSecretRef: {{name: agent, key: token}}\nallowedHosts: ['{}']\nplugins:\n- name: hot_update\n  config: {{fileDir: {}, loadPatchType: none}}\n",
        site.host(),
        folder.path().join("files").display(),
    );
    let agent = Agent::start_in(folder, &cluster, &config, "");
    let form = format!("version=v1&url={}&sha256={}", site.url("/app.conf"), sha256(b"new"));
    let media = "application/x-www-form-urlencoded";
    for token in [None, Some(""), Some("wrong"), Some("s3cre"), Some("s3cret x"), Some("s3cret,")] {
        assert_eq!(agent.request("POST", "/hot-update", media, &form, token).await.0, 401, "{token:?}");
    }
    assert_eq!(agent.get("/status").await.0, 401);
    assert_eq!(agent.get("/healthz").await.0, 200);
    assert_eq!(site.seen.lock().unwrap().len(), 0);
    assert_eq!(agent.request("POST", "/hot-update", media, &form, Some("s3cret")).await.0, 200);
    // Who has the token may call the pod by any name, and is no web page.
    let token = "Authorization: Bearer s3cret\r\n";
    assert_eq!(agent.send("GET /status", "agent.games.svc", token, "").await.0, 200);
    let page = format!("{token}Origin: http://evil.example.com\r\n");
    assert_eq!(agent.send("GET /status", "agent.games.svc", &page, "").await.0, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_page_updates_nothing() {
    let scene = Scene::new("").await;
    let port = scene.agent.port;
    let (own, page) = (format!("localhost:{port}"), format!("Origin: http://localhost:{port}\r\n"));
    let (own, page) = (own.as_str(), page.as_str());
    // A page of another site, and one whose name was made to lead here.
    let rows = [
        ("POST /hot-update", own, "Origin: https://evil.example.com\r\n", 403),
        ("POST /hot-update", own, "Origin: null\r\n", 403),
        ("POST /hot-update", "evil.example.com", "", 403),
        ("POST /hot-update", "evil.example.com", "Origin: http://evil.example.com\r\n", 403),
        ("GET /status", "evil.example.com", "", 403),
        ("GET /healthz", "evil.example.com", "", 200),
        ("GET /metrics", "evil.example.com", "", 200),
        ("GET /status", own, "", 200),
        ("GET /status", own, page, 200),
        ("GET /status", "127.0.0.1", "", 200),
        ("GET /status", "10.1.2.3", "", 403),
    ];
    scene.site.set("/app.conf", 200, "evil");
    let form = format!("version=v2&url={}&sha256={}", scene.site.url("/app.conf"), sha256(b"evil"));
    for (request, host, headers, expected) in rows {
        let (status, text) = scene.agent.send(request, host, headers, &form).await;
        assert_eq!(status, expected, "{request} {host} {headers}: {text}");
        scene.unharmed(request);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poisoned_result_is_not_followed() {
    let scene = Scene::new("").await;
    let poisoned = serde_json::json!({
        "workload": "web", "version": "v999", "url": "http://evil.example.com/x", "file": "app.conf",
        "sha256": sha256(b"evil"), "size": 4, "result": "", "time": jiff::Timestamp::now() + jiff::SignedDuration::from_mins(1),
    });
    let other = |url: String, time: &str| {
        let mut entry = poisoned.clone();
        (entry["url"], entry["time"]) = (url.into(), time.into());
        entry.to_string()
    };
    let soon = poisoned["time"].as_str().unwrap();
    scene.site.set("/evil", 200, "evil");
    let evil = scene.site.url("/evil");
    scene.cluster.entry(|entry| entry["version"] == "v1").await;
    let data = serde_json::json!({"data": {
        "web-1": poisoned.to_string(), "web-2": "[".repeat(100_000),
        // What is allowed to be fetched, but comes from another workload or from the future.
        "db-0": other(evil.clone(), soon), "web-3": other(evil, "2099-01-01T00:00:00Z"),
    }});
    scene.cluster.merge(support::RESULTS, data).await;
    // A new pod of the workload: its directory is empty.
    let (cluster, config) =
        (scene.cluster.clone(), std::fs::read_to_string(scene.agent.folder.path().join("config.yaml")).unwrap());
    let folder = scene.agent.into_folder();
    std::fs::remove_dir_all(folder.path().join("files")).unwrap();
    let agent = Agent::start_in(folder, &cluster, &config, "");
    let is_refused = || agent.log.lock().unwrap().contains("evil.example.com is not allowed");
    eventually(async || is_refused().then_some(())).await.expect("it is refused");
    // What the workload runs is followed all the same.
    let file = || std::fs::read_to_string(agent.files().join("app.conf")).ok();
    eventually(async || file().filter(|text| text == "old")).await.expect("the entry that is allowed is followed");
    assert!(!scene.site.seen.lock().unwrap().iter().any(|path| path == "/evil"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_with_the_same_name_is_not_signalled() {
    // It is visible to the agent, with the same command line, but in a process namespace below the agent's: another pod's.
    let scene = Scene::new("").await;
    let stranger = || std::fs::read_to_string(scene.agent.folder.path().join("stranger")).unwrap_or_default();
    assert_eq!(stranger(), "up\n", "it is there");
    scene.site.set("/app.conf", 200, "new");
    assert_eq!(scene.post("v2", "/app.conf", b"new", "").await.0, 200);
    scene.agent.hups_reach(2).await;
    assert_eq!(stranger(), "up\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_journal_leads_nowhere() {
    let scene = Scene::new("").await;
    let (cluster, config) =
        (scene.cluster.clone(), std::fs::read_to_string(scene.agent.folder.path().join("config.yaml")).unwrap());
    let mut folder = scene.agent.into_folder();
    let good = serde_json::json!({
        "version": "v2", "url": scene.site.url("/app.conf"), "file": "app.conf", "sha256": null, "size": null,
        "new": sha256(b"precious"), "old": null, "staged": "incoming", "failed": "forged", "attempts": 0,
    });
    for (key, value) in [("file", "../evil"), ("staged", "../../evil"), ("staged", ".."), ("file", ".pillion-agent")] {
        // A directory with a file, which a recursive removal would take, and the file that the digest names.
        let evil = folder.path().join("evil");
        std::fs::write(&evil, "precious").unwrap();
        let mut journal = good.clone();
        journal[key] = value.into();
        if key == "staged" {
            std::fs::write(folder.path().join("files/app.conf"), "precious").unwrap();
        }
        std::fs::write(folder.path().join("files/.pillion-agent/journal.json"), journal.to_string()).unwrap();
        let agent = Agent::start_in(folder, &cluster, &config, "");
        let refused = || agent.log.lock().unwrap().contains("the journal of an update was not followed");
        eventually(async || refused().then_some(())).await.expect("it is refused");
        assert_eq!(std::fs::read_to_string(&evil).unwrap(), "precious", "{key} {value}");
        assert!(agent.files().join("app.conf").exists(), "{key} {value}");
        assert!(!agent.files().join(".pillion-agent/journal.json").exists(), "{key} {value}");
        folder = agent.into_folder();
    }
}

/// One entry of a zip archive: its name, the mode that a Unix gives it, its contents, and the size that is written for it.
struct Zipped<'a> {
    name: &'a str,
    mode: u32,
    data: &'a [u8],
    size: Option<u32>,
}

/// A zip archive, made as other tools make them.
fn zip(entries: &[Zipped<'_>]) -> Vec<u8> {
    use std::io::Write as _;
    let (mut bytes, mut central) = (Vec::new(), Vec::new());
    for Zipped { name, mode, data, size } in entries {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(data).unwrap();
        let packed = encoder.finish().unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(data);
        let size = size.unwrap_or(u32::try_from(data.len()).unwrap());
        let length = u16::try_from(name.len()).unwrap().to_le_bytes();
        let at = u32::try_from(bytes.len()).unwrap();
        // From the version to the lengths, which both headers have.
        let mut common = vec![20, 0, 0, 8, 8, 0, 0, 0, 0, 0];
        for number in [crc.sum(), u32::try_from(packed.len()).unwrap(), size] {
            common.extend(number.to_le_bytes());
        }
        common.extend(length);
        common.extend([0, 0]);
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&common);
        bytes.extend(name.as_bytes());
        bytes.extend(&packed);
        central.extend(b"PK\x01\x02\x14\x03");
        central.extend(&common);
        central.extend([0; 6]);
        central.extend((mode << 16).to_le_bytes());
        central.extend(at.to_le_bytes());
        central.extend(name.as_bytes());
    }
    let start = u32::try_from(bytes.len()).unwrap();
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    bytes.extend(&central);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(count);
    bytes.extend(count);
    bytes.extend(u32::try_from(central.len()).unwrap().to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

fn zipped<'a>(name: &'a str, data: &'a [u8]) -> Zipped<'a> {
    Zipped { name, mode: 0o100_644, data, size: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zip_archives_are_unpacked_and_what_they_hide_is_not() {
    let scene = Scene::new("").await;
    let big = vec![0; 50_000_000];
    let good = zip(&[zipped("a/b/c.conf", b"deep"), zipped("top.conf", b"top")]);
    let mut damaged = good.clone();
    // The first byte of the contents of the first file.
    damaged[30 + "a/b/c.conf".len()] ^= 0xff;
    let mut encrypted = good.clone();
    let central = encrypted.windows(4).position(|mark| mark == b"PK\x01\x02").unwrap();
    encrypted[central + 8] |= 1;
    let table = [
        ("traversal", zip(&[zipped("../../evil", b"x")])),
        ("deep traversal", zip(&[zipped("a/b/../../../../evil", b"x")])),
        ("absolute", zip(&[zipped("/tmp/evil-absolute", b"x")])),
        ("symlink", zip(&[Zipped { mode: 0o120_777, ..zipped("link", b"/etc") }])),
        ("device", zip(&[Zipped { mode: 0o020_666, ..zipped("null", b"") }])),
        ("twice", zip(&[zipped("a", b"x"), zipped("a", b"y")])),
        ("a bomb", zip(&[zipped("a", &big)])),
        ("a bomb that lies about its size", zip(&[Zipped { size: Some(10), ..zipped("a", &big) }])),
        ("cut off", good[..good.len() - 30].to_vec()),
        ("damaged", damaged),
        ("encrypted", encrypted),
        ("no name", zip(&[zipped("./", b""), zipped(".", b"x")])),
    ];
    for (what, bytes) in table {
        scene.site.set("/site.zip", 200, &bytes);
        let (status, text) = scene.post("v2", "/site.zip", &bytes, "").await;
        assert_eq!(status, 500, "{what}: {text}");
        scene.unharmed(what);
    }
    assert!(!Path::new("/tmp/evil-absolute").exists());
    scene.site.set("/site.zip", 200, &good);
    let (status, text) = scene.post("v2", "/site.zip", &good, "").await;
    assert_eq!(status, 200, "{text}");
    assert_eq!(std::fs::read_to_string(scene.agent.files().join("site/a/b/c.conf")).unwrap(), "deep");
    assert_eq!(names(&scene.agent.files()), [".pillion-agent", "app.conf", "site"]);
}
