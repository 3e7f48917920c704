//! The numbers on disk that native code needs.  `docstore/model/format.py` lists and explains all of them; one test
//! compares each one here with that list.

use docstore_frames::Way;
use docstore_kernel::{postings, sketch, slices};

/// A number, a word or a list of them, for the test that compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    Number(u64),
    Bytes(&'static [u8]),
    Text(&'static str),
    Texts(&'static [&'static str]),
    Numbers(&'static [u32]),
    Columns(&'static [(u8, Column)]),
    Tags(&'static [(&'static str, u8)]),
    Names(&'static [(&'static str, &'static str)]),
}

/// Family and qualifier.
pub type Column = (&'static str, &'static [u8]);

macro_rules! literals {
    ($($name:ident: $kind:ty = $value:expr, $literal:expr;)*) => {
        $(pub const $name: $kind = $value;)*

        /// Each constant of this module by its name.
        pub const LITERALS: &[(&str, Literal)] = &[$((stringify!($name), $literal),)*];
    };
}

macro_rules! numbers_and {
    ($($name:ident: $kind:ty = $value:expr;)* ; $($rest:tt)*) => {
        literals! { $($name: $kind = $value, Literal::Number($value as u64);)* $($rest)* }
    };
}

numbers_and! {
    URL_LIMIT_BYTES: usize = 65_536;
    KEY_KIND_CELL: u8 = 0x03;
    TIMESTAMP_MAX: u64 = i64::MAX as u64;
    CAPTURE_STORED: u8 = 0x00;
    CAPTURE_CONFIRMED: u8 = 0x01;
    CAPTURE_NOT_MODIFIED: u8 = 0x02;
    CAPTURE_REJECTED: u8 = 0x03;
    CAPTURE_ARRIVED: u8 = 64;
    CAPTURE_CONFIRMS: u8 = 65;
    CAPTURE_SHA1: u8 = 67;
    HEADER_LOWER_CASE: u8 = 0x80;
    HEADER_TEXT: u64 = 64;
    VALUE_INLINE: u8 = 0x00;
    VALUE_REF: u8 = 0x01;
    VALUE_ABSENT: u8 = 0x02;
    INLINE_LIMIT_BYTES: usize = 512;
    RECORD_MAGIC: u8 = 0xd5;
    RECORD_WIDE: u8 = 0x08;
    RECORD_NARROW_HEADER_BYTES: usize = 18;
    RECORD_TIMESTAMP_STEP: u64 = 1000;
    RECORD_WIDE_HEADER_BYTES: usize = 28;
    RECORD_CRC_BYTES: usize = 4;
    RECORD_RELATED_BYTES: usize = 16;
    RECORD_BODY_LENGTH_BYTES: usize = 4;
    RECORD_FIELDS_MAX_BYTES: usize = 256 << 10;
    RECORD_VALUE: u8 = 1;
    RECORD_DELETE_ROW: u8 = 2;
    RECORD_DELETE_FAMILY: u8 = 3;
    RECORD_DELETE_COLUMN: u8 = 4;
    RECORD_GROUP: u8 = 5;
    RECORD_COPIES: u8 = 6;
    CODEC_STORED: u8 = Way::Stored as u8;
    CODEC_ZSTD: u8 = Way::Plain as u8;
    CODEC_ZSTD_DICTIONARY: u8 = Way::Dictionary as u8;
    CODEC_ZSTD_DELTA: u8 = Way::Delta as u8;
    CODEC_ZSTD_BODY: u8 = Way::Body as u8;
    POSTING_BODY: u8 = 0x01;
    POSTING_TEXT: u8 = 0x07;
    POSTING_PAYLOAD_DIGEST: u8 = 0x08;
    POSTING_DOCNO: u8 = 0x09;
    POSTING_BODY_BYTES: usize = 8;
    TEXT_NUMBER_BYTES: usize = postings::TEXT_BYTES;
    TITLE_KEY_BYTES: usize = 4;
    RUN_FORMAT_VERSION: u16 = 3;
    RUN_FOOTER_BYTES: usize = 56;
    RUN_TEXT_GONE: u64 = 0;
    RUN_BUCKET_BITS: u32 = slices::BUCKET_BITS;
    RUN_KEY_BITS: u32 = slices::KEY_BITS;
    RUN_PLACE_BITS: u32 = slices::PLACE_BITS;
    SCHEME_BLAKE3_256: u8 = 1;
    SCHEME_SIMHASH64_1: u8 = 1;
    SCHEME_TEXT_2: u8 = 2;
    SCHEME_SKETCH_1: u8 = 1;
    SKETCH_BYTES: usize = 1 + sketch::SKETCH_BYTES;
    ;
    ROW_KEY_LABEL_SEPARATOR: u8 = b',', Literal::Bytes(b",");
    ROW_KEY_HOST_END: u8 = b')', Literal::Bytes(b")");
    ROW_KEY_NO_HOST: u8 = b'(', Literal::Bytes(b"(");
    ROW_KEY_SCHEME_MARK: u8 = b' ', Literal::Bytes(b" ");
    KEY_ESCAPE: [u8; 2] = [0, 0xff], Literal::Bytes(b"\0\xff");
    KEY_END: [u8; 2] = [0, 1], Literal::Bytes(b"\0\x01");
    FAMILY_END: u8 = 0, Literal::Bytes(b"\0");
    RUN_LIST_HEAD_BITS: [u32; 2] = [slices::COUNT_BITS, slices::STEP_BITS], Literal::Numbers(&RUN_LIST_HEAD_BITS);
    RUN_MAGIC: [u8; 8] = *b"DSPOSTRN", Literal::Bytes(b"DSPOSTRN");
    TABLE_TAGS: &[(&str, u8)] = &[("meta", 0x01), ("pages", 0x02), ("bodies", 0x03), ("postings", 0x04)],
        Literal::Tags(TABLE_TAGS);
    BARE_TABLES: &[(&str, &str)] = &[("postings", "p")], Literal::Names(BARE_TABLES);
    CAPTURE_FAMILY: &str = "capture", Literal::Text("capture");
    BASE_FAMILY: &str = "b", Literal::Text("b");
    REASON_BLANK: &str = "blank", Literal::Text(REASON_BLANK);
    REASON_NOT_MODIFIED: &str = "not_modified", Literal::Text(REASON_NOT_MODIFIED);
    VERDICT_KINDS: &[&str] = &["exact", "same_text", "near", "contained", "similar", "new"],
        Literal::Texts(VERDICT_KINDS);
    VERDICT_PREVIOUS: &[&str] = &["none", "same_bytes", "same_text", "changed"], Literal::Texts(VERDICT_PREVIOUS);
    VERDICT_STORED: &[&str] =
        &["body", "reference", "text", "confirmed", "rejected", "known", "refused", "visit"],
        Literal::Texts(VERDICT_STORED);
    HEADER_NAMES: &[&str] = &[
        "Age", "Content-Disposition", "Content-Length", "Cookie", "Date", "ETag", "If-Modified-Since", "If-None-Match",
        "Last-Modified", "Link", "Location", "Referer", "Set-Cookie", "Accept", "Accept-Encoding", "Accept-Ranges",
        "Access-Control-Allow-Headers", "Access-Control-Allow-Origin", "Cache-Control", "Content-Encoding",
        "Content-Type", "Range", "Strict-Transport-Security", "Vary", "X-Content-Type-Options", "X-XSS-Protection",
        "Accept-Language", "Access-Control-Allow-Credentials", "Access-Control-Allow-Methods",
        "Access-Control-Expose-Headers", "Access-Control-Request-Headers", "Access-Control-Request-Method", "Alt-Svc",
        "Authorization", "Content-Security-Policy", "Early-Data", "Expect-CT", "Forwarded", "If-Range", "Origin",
        "Purpose", "Server", "Timing-Allow-Origin", "Upgrade-Insecure-Requests", "User-Agent", "X-Forwarded-For",
        "X-Frame-Options", "Accept-Charset", "Allow", "Content-Language", "Content-Location", "Content-Range", "Expect",
        "Expires", "From", "Host", "If-Match", "If-Unmodified-Since", "Max-Forwards", "Proxy-Authenticate", "Refresh",
        "Proxy-Authorization", "Retry-After", "Transfer-Encoding", "Via", "WWW-Authenticate", "Connection",
        "Keep-Alive", "Pragma", "Trailer", "Upgrade", "Warning", "Content-MD5", "P3P", "X-Powered-By", "X-Cache",
        "X-Cache-Hits", "X-Served-By", "X-Timer", "X-UA-Compatible", "X-Request-Id", "X-Robots-Tag",
        "X-AspNet-Version", "X-Generator", "X-Pingback", "X-Varnish", "Referrer-Policy", "Permissions-Policy",
        "Report-To", "NEL", "Server-Timing", "CF-Ray", "CF-Cache-Status", "X-Amz-Cf-Id", "X-Amz-Cf-Pop",
        "X-Amz-Request-Id", "X-Amz-Id-2",
    ], Literal::Texts(HEADER_NAMES);
    HEADER_VALUES: &[&str] = &[
        "0", "*", "bytes", "gzip", "br", "deflate", "chunked", "close", "keep-alive", "Keep-Alive", "none", "Upgrade",
        "text/html", "text/html; charset=utf-8", "text/html; charset=UTF-8", "text/html;charset=utf-8", "text/plain",
        "text/html;charset=UTF-8", "text/html; charset=iso-8859-1", "text/html; charset=ISO-8859-1",
        "application/json", "text/plain;charset=utf-8", "text/plain; charset=utf-8", "application/xhtml+xml",
        "application/xml", "text/xml", "max-age=0", "max-age=2592000", "max-age=604800", "no-cache", "no-store",
        "public, max-age=31536000", "private", "accept-encoding", "Accept-Encoding", "origin", "nosniff",
        "1; mode=block", "deny", "DENY", "sameorigin", "max-age=31536000", "max-age=31536000; includesubdomains",
        "max-age=31536000; includeSubDomains", "SAMEORIGIN", "max-age=31536000; includeSubDomains; preload",
        "no-store, no-cache, must-revalidate", "-1", "HIT", "MISS", "nginx", "Apache", "cloudflare", "openresty",
        "LiteSpeed", "Microsoft-IIS/10.0", "AmazonS3", "GitHub.com", "ASP.NET", "en",
    ], Literal::Texts(HEADER_VALUES);
    RECORD_COLUMNS: &[(u8, Column)] = &[
        (1, ("page", b"body")),
        (2, ("text", b"title")),
        (3, ("text", b"main")),
        (4, ("text", b"description")),
        (5, ("text", b"keywords")),
        (6, ("text", b"headings")),
        (7, ("text", b"lang")),
        (8, ("http", b"headers")),
    ], Literal::Columns(RECORD_COLUMNS);
    CAPTURE_FIELDS: &[(u8, Column)] = &[
        (1, ("page", b"body")),
        (2, ("http", b"status")),
        (3, ("http", b"headers")),
        (4, ("http", b"type")),
        (5, ("http", b"charset")),
        (6, ("http", b"ip")),
        (7, ("http", b"payload_digest")),
        (8, ("http", b"docno")),
        (9, ("http", b"visit")),
        (10, ("http", b"url")),
        (11, ("text", b"title")),
        (12, ("text", b"main")),
        (13, ("text", b"description")),
        (14, ("text", b"keywords")),
        (15, ("text", b"headings")),
        (16, ("text", b"lang")),
        (17, ("text", b"canonical")),
        (18, ("text", b"published")),
        (19, ("text", b"entries")),
        (20, ("dedup", b"checksum")),
        (21, ("dedup", b"text_checksum")),
        (22, ("dedup", b"simhash")),
        (23, ("dedup", b"sketch")),
        (24, ("dedup", b"verdict")),
        (25, ("http", b"crawl")),
    ], Literal::Columns(CAPTURE_FIELDS);
}
