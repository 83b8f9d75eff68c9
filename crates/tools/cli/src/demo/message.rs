//! Requests and returns of HTTP/1.1 (RFC 9112), as far as the demo needs them: no bodies in requests, no chunks.

use std::io::{self, BufRead, Read, Write};

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Method {
    /// The document.
    Get,
    /// Its headers only.
    Head,
    /// Anything else, which the server refuses.
    Other,
}

impl Method {
    /// As it stands in a request.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Other => "DELETE",
        }
    }
}

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    /// Whether the client wants to go on with this connection.
    pub(super) keep: bool,
}

/// An answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// The header `ETag`: digest of the body.
    pub(super) tag: Option<u64>,
    pub(super) len: u64,
    pub(super) body: Vec<u8>,
}

/// Most bytes of a line, and most lines of a header.
const LINE_MAX: u64 = 4096;
const LINES_MAX: usize = 64;

/// Reads a request; `None` when the client has closed the connection.
pub(super) fn read_request(from: &mut impl BufRead) -> io::Result<Option<Request>> {
    let line = read_line(from)?;
    if line.is_empty() {
        return Ok(None);
    }
    let mut words = line.split(' ');
    let (Some(method), Some(path), Some("HTTP/1.1"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad("not a request of HTTP/1.1"));
    };
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        _ => Method::Other,
    };
    let mut request = Request { method, path: path.to_owned(), keep: true };
    read_headers(from, |name, value| {
        request.keep &= !(name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close"));
    })?;
    Ok(Some(request))
}

/// Writes a request whole, so that it goes out by one system call.
pub(super) fn write_request(to: &mut impl Write, method: Method, path: &str, keep: bool) -> io::Result<()> {
    let connection = if keep { "keep-alive" } else { "close" };
    let text =
        format!("{} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: {connection}\r\n\r\n", method.name());
    to.write_all(text.as_bytes())
}

/// Writes an answer; the body only if `method` wants it. Returns the bytes written.
pub(super) fn write_response(
    to: &mut impl Write,
    method: Method,
    status: u16,
    tag: u64,
    body: &[u8],
) -> io::Result<u64> {
    let reason = match status {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Error",
    };
    let mut bytes = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nETag: \"{tag:016x}\"\r\n\r\n",
        body.len()
    )
    .into_bytes();
    if method == Method::Get {
        bytes.extend_from_slice(body);
    }
    to.write_all(&bytes)?;
    Ok(bytes.len() as u64)
}

/// Reads the answer to a request of `method`.
pub(super) fn read_response(from: &mut impl BufRead, method: Method) -> io::Result<Response> {
    const BODY_MAX: u64 = 1 << 20;
    let line = read_line(from)?;
    let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let mut response =
        Response { status: status.ok_or_else(|| bad("not an answer"))?, ..Response::default() };
    read_headers(from, |name, value| {
        if name.eq_ignore_ascii_case("content-length") {
            response.len = value.parse().unwrap_or(u64::MAX);
        } else if name.eq_ignore_ascii_case("etag") {
            response.tag = u64::from_str_radix(value.trim_matches('"'), 16).ok();
        }
    })?;
    if response.len > BODY_MAX {
        return Err(bad("the length of the body is not possible"));
    }
    if method == Method::Get {
        from.take(response.len).read_to_end(&mut response.body)?;
    }
    Ok(response)
}

/// Reads header lines up to the empty one.
fn read_headers(from: &mut impl BufRead, mut each: impl FnMut(&str, &str)) -> io::Result<()> {
    for _ in 0..LINES_MAX {
        let line = read_line(from)?;
        if line.is_empty() {
            return Ok(());
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad("a header without a colon"))?;
        each(name, value.trim());
    }
    Err(bad("too many headers"))
}

/// A line without its end; empty at the end of the stream.
fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if from.take(LINE_MAX).read_line(&mut line)? > 0 && !line.ends_with('\n') {
        return Err(bad("a line that is too long or was cut"));
    }
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(line)
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut bytes = Vec::new();
        write_request(&mut bytes, Method::Head, "/a", false).expect("written");
        let expected = Request { method: Method::Head, path: "/a".to_owned(), keep: false };
        assert_eq!(read_request(&mut &bytes[..]).expect("a request"), Some(expected));

        let mut bytes = Vec::new();
        write_response(&mut bytes, Method::Get, 200, 7, b"body").expect("written");
        let read = read_response(&mut &bytes[..], Method::Get).expect("an answer");
        assert_eq!((read.status, read.tag, read.len, &read.body[..]), (200, Some(7), 4, &b"body"[..]));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(read_request(&mut &b""[..]).expect("the end"), None);
        let long = [b'a'; 9000];
        for bad in [
            &b"GET /\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nnocolon\r\n\r\n",
            b"GET / HTTP/1.1",
            &long,
            b"\xff\xfe\n",
        ] {
            assert!(read_request(&mut &bad[..]).is_err(), "{bad:?}");
        }
    }
}
