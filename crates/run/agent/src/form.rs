//! Forms as Go reads them: the query, an urlencoded body, or a multipart body.

use percent_encoding::percent_decode_str;

/// The fields of a form; those of the body come first.
pub(crate) fn fields(query: &str, media: &str, body: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    if media.starts_with("application/x-www-form-urlencoded") || media.is_empty() {
        fields.extend(urlencoded(body));
    } else if let Some(boundary) = media.split("boundary=").nth(1).filter(|_| media.starts_with("multipart/form-data"))
    {
        fields.extend(multipart(boundary.trim_matches('"'), body));
    }
    fields.extend(urlencoded(query));
    fields
}

fn urlencoded(text: &str) -> impl Iterator<Item = (String, String)> {
    let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    text.trim().split('&').filter(|pair| !pair.is_empty()).map(move |pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key), decode(value))
    })
}

/// Text fields; files are passed over.
fn multipart(boundary: &str, body: &str) -> Vec<(String, String)> {
    let boundary = format!("--{boundary}");
    let parts = body.split(&boundary).skip(1);
    let field = |part: &str| {
        let (head, value) = part.split_once("\r\n\r\n")?;
        let disposition = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-disposition:"))?;
        let name = disposition.split("; ").find_map(|word| word.strip_prefix("name="))?;
        if disposition.contains("filename=") {
            return None;
        }
        Some((name.trim_matches('"').to_owned(), value.trim_end_matches("\r\n").to_owned()))
    };
    parts.filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_from_the_query_and_both_kinds_of_body() {
        let expected = [("version".to_owned(), "v1".to_owned()), ("url".to_owned(), "http://a/b?c=d e".to_owned())];
        let encoded = "version=v1&url=http%3A%2F%2Fa%2Fb%3Fc%3Dd+e";
        assert_eq!(fields(encoded, "", ""), expected);
        assert_eq!(fields("", "application/x-www-form-urlencoded", encoded), expected);
        let body = "--x\r\nContent-Disposition: form-data; name=\"version\"\r\n\r\nv1\r\n--x\r\nContent-Disposition: form-data; name=\"url\"\r\n\r\nhttp://a/b?c=d e\r\n--x--\r\n";
        assert_eq!(fields("", "multipart/form-data; boundary=x", body), expected);
        assert_eq!(fields("", "multipart/form-data; boundary=y", body), []);
    }
}
