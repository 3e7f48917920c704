//! Tag names that the kernel knows by number, with what the reference says of each.
//!
//! Made by `tools/make_native_tables.py`; never edited by hand.

pub const INLINE: u16 = 1 << 0;
pub const HIDDEN: u16 = 1 << 1;
pub const PREFORMATTED: u16 = 1 << 2;
pub const VISIBLE_RAW: u16 = 1 << 3;
pub const REFERENCES_RAW: u16 = 1 << 4;
pub const RAW: u16 = 1 << 5;
pub const HEADING: u16 = 1 << 6;
pub const DECLARING: u16 = 1 << 7;
pub const LINKING: u16 = 1 << 8;

pub const NAME_A: u32 = 0;
pub const NAME_ABBR: u32 = 1;
pub const NAME_ACRONYM: u32 = 2;
pub const NAME_ADDRESS: u32 = 3;
pub const NAME_AREA: u32 = 4;
pub const NAME_ARTICLE: u32 = 5;
pub const NAME_ASIDE: u32 = 6;
pub const NAME_AUDIO: u32 = 7;
pub const NAME_B: u32 = 8;
pub const NAME_BASE: u32 = 9;
pub const NAME_BASEFONT: u32 = 10;
pub const NAME_BDI: u32 = 11;
pub const NAME_BDO: u32 = 12;
pub const NAME_BGSOUND: u32 = 13;
pub const NAME_BIG: u32 = 14;
pub const NAME_BLINK: u32 = 15;
pub const NAME_BLOCKQUOTE: u32 = 16;
pub const NAME_BODY: u32 = 17;
pub const NAME_BR: u32 = 18;
pub const NAME_BUTTON: u32 = 19;
pub const NAME_CANVAS: u32 = 20;
pub const NAME_CAPTION: u32 = 21;
pub const NAME_CENTER: u32 = 22;
pub const NAME_CIRCLE: u32 = 23;
pub const NAME_CITE: u32 = 24;
pub const NAME_CODE: u32 = 25;
pub const NAME_COL: u32 = 26;
pub const NAME_COLGROUP: u32 = 27;
pub const NAME_DATA: u32 = 28;
pub const NAME_DD: u32 = 29;
pub const NAME_DEL: u32 = 30;
pub const NAME_DETAILS: u32 = 31;
pub const NAME_DFN: u32 = 32;
pub const NAME_DIALOG: u32 = 33;
pub const NAME_DIV: u32 = 34;
pub const NAME_DL: u32 = 35;
pub const NAME_DT: u32 = 36;
pub const NAME_EM: u32 = 37;
pub const NAME_EMBED: u32 = 38;
pub const NAME_FIELDSET: u32 = 39;
pub const NAME_FIGCAPTION: u32 = 40;
pub const NAME_FIGURE: u32 = 41;
pub const NAME_FONT: u32 = 42;
pub const NAME_FOOTER: u32 = 43;
pub const NAME_FORM: u32 = 44;
pub const NAME_FRAME: u32 = 45;
pub const NAME_FRAMESET: u32 = 46;
pub const NAME_G: u32 = 47;
pub const NAME_H1: u32 = 48;
pub const NAME_H2: u32 = 49;
pub const NAME_H3: u32 = 50;
pub const NAME_H4: u32 = 51;
pub const NAME_H5: u32 = 52;
pub const NAME_H6: u32 = 53;
pub const NAME_HEAD: u32 = 54;
pub const NAME_HEADER: u32 = 55;
pub const NAME_HGROUP: u32 = 56;
pub const NAME_HR: u32 = 57;
pub const NAME_HTML: u32 = 58;
pub const NAME_I: u32 = 59;
pub const NAME_IFRAME: u32 = 60;
pub const NAME_IMG: u32 = 61;
pub const NAME_INPUT: u32 = 62;
pub const NAME_INS: u32 = 63;
pub const NAME_KBD: u32 = 64;
pub const NAME_KEYGEN: u32 = 65;
pub const NAME_LABEL: u32 = 66;
pub const NAME_LEGEND: u32 = 67;
pub const NAME_LI: u32 = 68;
pub const NAME_LINK: u32 = 69;
pub const NAME_LISTING: u32 = 70;
pub const NAME_MAIN: u32 = 71;
pub const NAME_MAP: u32 = 72;
pub const NAME_MARK: u32 = 73;
pub const NAME_MATH: u32 = 74;
pub const NAME_MENU: u32 = 75;
pub const NAME_META: u32 = 76;
pub const NAME_NAV: u32 = 77;
pub const NAME_NOBR: u32 = 78;
pub const NAME_NOEMBED: u32 = 79;
pub const NAME_NOFRAMES: u32 = 80;
pub const NAME_NOSCRIPT: u32 = 81;
pub const NAME_OBJECT: u32 = 82;
pub const NAME_OL: u32 = 83;
pub const NAME_OPTGROUP: u32 = 84;
pub const NAME_OPTION: u32 = 85;
pub const NAME_P: u32 = 86;
pub const NAME_PARAM: u32 = 87;
pub const NAME_PATH: u32 = 88;
pub const NAME_PICTURE: u32 = 89;
pub const NAME_PLAINTEXT: u32 = 90;
pub const NAME_PRE: u32 = 91;
pub const NAME_Q: u32 = 92;
pub const NAME_RB: u32 = 93;
pub const NAME_RECT: u32 = 94;
pub const NAME_RUBY: u32 = 95;
pub const NAME_S: u32 = 96;
pub const NAME_SAMP: u32 = 97;
pub const NAME_SCRIPT: u32 = 98;
pub const NAME_SEARCH: u32 = 99;
pub const NAME_SECTION: u32 = 100;
pub const NAME_SELECT: u32 = 101;
pub const NAME_SLOT: u32 = 102;
pub const NAME_SMALL: u32 = 103;
pub const NAME_SOURCE: u32 = 104;
pub const NAME_SPAN: u32 = 105;
pub const NAME_STRIKE: u32 = 106;
pub const NAME_STRONG: u32 = 107;
pub const NAME_STYLE: u32 = 108;
pub const NAME_SUB: u32 = 109;
pub const NAME_SUMMARY: u32 = 110;
pub const NAME_SUP: u32 = 111;
pub const NAME_SVG: u32 = 112;
pub const NAME_TABLE: u32 = 113;
pub const NAME_TBODY: u32 = 114;
pub const NAME_TD: u32 = 115;
pub const NAME_TEMPLATE: u32 = 116;
pub const NAME_TEXTAREA: u32 = 117;
pub const NAME_TFOOT: u32 = 118;
pub const NAME_TH: u32 = 119;
pub const NAME_THEAD: u32 = 120;
pub const NAME_TIME: u32 = 121;
pub const NAME_TITLE: u32 = 122;
pub const NAME_TR: u32 = 123;
pub const NAME_TRACK: u32 = 124;
pub const NAME_TT: u32 = 125;
pub const NAME_U: u32 = 126;
pub const NAME_UL: u32 = 127;
pub const NAME_USE: u32 = 128;
pub const NAME_VAR: u32 = 129;
pub const NAME_VIDEO: u32 = 130;
pub const NAME_WBR: u32 = 131;
pub const NAME_XMP: u32 = 132;

pub const KNOWN: usize = 133;

pub static NAMES: [&str; 133] = [
    "a",
    "abbr",
    "acronym",
    "address",
    "area",
    "article",
    "aside",
    "audio",
    "b",
    "base",
    "basefont",
    "bdi",
    "bdo",
    "bgsound",
    "big",
    "blink",
    "blockquote",
    "body",
    "br",
    "button",
    "canvas",
    "caption",
    "center",
    "circle",
    "cite",
    "code",
    "col",
    "colgroup",
    "data",
    "dd",
    "del",
    "details",
    "dfn",
    "dialog",
    "div",
    "dl",
    "dt",
    "em",
    "embed",
    "fieldset",
    "figcaption",
    "figure",
    "font",
    "footer",
    "form",
    "frame",
    "frameset",
    "g",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hgroup",
    "hr",
    "html",
    "i",
    "iframe",
    "img",
    "input",
    "ins",
    "kbd",
    "keygen",
    "label",
    "legend",
    "li",
    "link",
    "listing",
    "main",
    "map",
    "mark",
    "math",
    "menu",
    "meta",
    "nav",
    "nobr",
    "noembed",
    "noframes",
    "noscript",
    "object",
    "ol",
    "optgroup",
    "option",
    "p",
    "param",
    "path",
    "picture",
    "plaintext",
    "pre",
    "q",
    "rb",
    "rect",
    "ruby",
    "s",
    "samp",
    "script",
    "search",
    "section",
    "select",
    "slot",
    "small",
    "source",
    "span",
    "strike",
    "strong",
    "style",
    "sub",
    "summary",
    "sup",
    "svg",
    "table",
    "tbody",
    "td",
    "template",
    "textarea",
    "tfoot",
    "th",
    "thead",
    "time",
    "title",
    "tr",
    "track",
    "tt",
    "u",
    "ul",
    "use",
    "var",
    "video",
    "wbr",
    "xmp",
];

pub static PROPERTIES: [u16; 133] = [
    INLINE | LINKING,
    INLINE,
    INLINE,
    0,
    LINKING,
    0,
    0,
    0,
    INLINE,
    0,
    INLINE,
    INLINE,
    INLINE,
    0,
    INLINE,
    INLINE,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    INLINE,
    INLINE,
    0,
    0,
    INLINE,
    0,
    INLINE,
    0,
    INLINE,
    0,
    0,
    0,
    0,
    INLINE,
    0,
    0,
    0,
    0,
    INLINE,
    0,
    0,
    0,
    0,
    0,
    HEADING,
    HEADING,
    HEADING,
    HEADING,
    HEADING,
    HEADING,
    0,
    0,
    0,
    0,
    DECLARING,
    INLINE,
    RAW,
    0,
    0,
    INLINE,
    INLINE,
    0,
    INLINE,
    0,
    0,
    DECLARING,
    PREFORMATTED,
    0,
    0,
    INLINE,
    0,
    0,
    DECLARING,
    0,
    INLINE,
    RAW,
    RAW,
    HIDDEN,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    VISIBLE_RAW | RAW,
    PREFORMATTED,
    INLINE,
    INLINE,
    0,
    INLINE,
    INLINE,
    INLINE,
    RAW,
    0,
    0,
    0,
    0,
    INLINE,
    0,
    INLINE,
    INLINE,
    INLINE,
    RAW,
    INLINE,
    0,
    INLINE,
    0,
    0,
    0,
    0,
    HIDDEN,
    VISIBLE_RAW | REFERENCES_RAW | RAW,
    0,
    0,
    0,
    INLINE,
    REFERENCES_RAW | RAW | DECLARING,
    0,
    0,
    INLINE,
    INLINE,
    0,
    0,
    INLINE,
    0,
    INLINE,
    VISIBLE_RAW | RAW,
];

/// What a start tag and an end tag are in an outline.
pub static KINDS: [(u8, u8); 133] = [
    (3, 4),
    (1, 1),
    (1, 1),
    (5, 6),
    (6, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (1, 1),
    (6, 0),
    (1, 1),
    (1, 1),
    (1, 1),
    (6, 0),
    (1, 1),
    (1, 1),
    (0, 0),
    (0, 0),
    (2, 2),
    (0, 0),
    (0, 0),
    (5, 6),
    (0, 0),
    (0, 0),
    (1, 1),
    (1, 1),
    (6, 0),
    (0, 0),
    (1, 1),
    (0, 0),
    (1, 1),
    (0, 0),
    (1, 1),
    (0, 0),
    (0, 0),
    (0, 0),
    (5, 6),
    (1, 1),
    (6, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (1, 1),
    (0, 0),
    (0, 0),
    (6, 0),
    (0, 0),
    (0, 0),
    (5, 6),
    (5, 6),
    (5, 6),
    (5, 6),
    (5, 6),
    (5, 6),
    (0, 0),
    (0, 0),
    (0, 0),
    (6, 0),
    (0, 0),
    (1, 1),
    (6, 0),
    (2, 2),
    (6, 0),
    (1, 1),
    (1, 1),
    (6, 0),
    (1, 1),
    (5, 6),
    (0, 0),
    (6, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (1, 1),
    (0, 0),
    (0, 0),
    (6, 0),
    (0, 0),
    (1, 1),
    (6, 0),
    (6, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (5, 6),
    (6, 0),
    (0, 0),
    (0, 0),
    (6, 0),
    (0, 0),
    (1, 1),
    (1, 1),
    (0, 0),
    (1, 1),
    (1, 1),
    (1, 1),
    (6, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (1, 1),
    (6, 0),
    (1, 1),
    (1, 1),
    (1, 1),
    (6, 0),
    (1, 1),
    (5, 6),
    (1, 1),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (6, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (1, 1),
    (6, 0),
    (0, 0),
    (6, 0),
    (1, 1),
    (1, 1),
    (0, 0),
    (0, 0),
    (1, 1),
    (0, 0),
    (1, 1),
    (6, 0),
];

/// What the tag's name itself says of its content.
pub static TAG_EVIDENCE: [u8; 133] = [
    0,
    0,
    0,
    0,
    0,
    8,
    1,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    64,
    0,
    1,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    1,
    0,
    0,
    0,
    0,
    0,
    0,
    1,
    0,
    0,
    1,
    1,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    4,
    0,
    0,
    64,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    16,
    0,
    0,
    0,
    1,
    0,
    1,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    1,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
];

/// A start tag and the elements on top that it closes.
pub static CLOSES: [(u32, &[u32]); 6] = [
    (NAME_DD, &[NAME_DD]),
    (NAME_LI, &[NAME_LI]),
    (NAME_OPTION, &[NAME_OPTION]),
    (NAME_TD, &[NAME_TD, NAME_TH]),
    (NAME_TH, &[NAME_TD, NAME_TH]),
    (NAME_TR, &[NAME_TD, NAME_TH, NAME_TR]),
];

pub static ROLES: [(&str, u8); 7] = [
    ("banner", 1),
    ("complementary", 1),
    ("contentinfo", 1),
    ("dialog", 1),
    ("main", 16),
    ("navigation", 1),
    ("search", 1),
];

pub static HINT_WORDS: [&str; 125] = [
    "ad",
    "addtoany",
    "ads",
    "adsbygoogle",
    "advert",
    "advertisement",
    "adverts",
    "anzeige",
    "aside",
    "author",
    "authors",
    "autor",
    "bio",
    "breadcrumb",
    "breadcrumbs",
    "byline",
    "caption",
    "captions",
    "catlinks",
    "colophon",
    "comment",
    "commentlist",
    "comments",
    "consent",
    "cookie",
    "cookies",
    "copyright",
    "credit",
    "credits",
    "crumbs",
    "cta",
    "disclaimer",
    "disqus",
    "donate",
    "donation",
    "dropdown",
    "editsection",
    "empfehlungen",
    "feedback",
    "flair",
    "follow",
    "foot",
    "footer",
    "gdpr",
    "headerlink",
    "impressum",
    "kommentar",
    "kommentare",
    "legal",
    "like",
    "links",
    "login",
    "masthead",
    "mehr",
    "menu",
    "meta",
    "metadata",
    "modal",
    "more",
    "nav",
    "navbar",
    "navi",
    "navigation",
    "newsletter",
    "next",
    "outbrain",
    "overlay",
    "pager",
    "pagination",
    "paginator",
    "paywall",
    "popular",
    "popup",
    "posts",
    "prev",
    "previous",
    "print",
    "promo",
    "promotion",
    "rating",
    "ratings",
    "readmore",
    "recent",
    "recommendation",
    "recommendations",
    "recommended",
    "register",
    "related",
    "rellinks",
    "reply",
    "respond",
    "rss",
    "search",
    "share",
    "sharedaddy",
    "shares",
    "sharing",
    "sidebar",
    "signup",
    "similar",
    "sitelinks",
    "skip",
    "social",
    "sponsor",
    "sponsored",
    "submenu",
    "subnav",
    "subscribe",
    "subscription",
    "taboola",
    "taglist",
    "tags",
    "teaser",
    "teasers",
    "textwidget",
    "toc",
    "toggle",
    "toolbar",
    "topbar",
    "trending",
    "verwandte",
    "werbung",
    "widget",
    "widgets",
    "widgettitle",
];

pub static ADVERT_WORDS: [&str; 12] = [
    "ad",
    "ads",
    "adsbygoogle",
    "advert",
    "advertisement",
    "adverts",
    "anzeige",
    "outbrain",
    "sponsor",
    "sponsored",
    "taboola",
    "werbung",
];

pub static ADVERT_NAMES: [&str; 1] = [
    "amp-embed",
];

pub static NEGATIONS: [&str; 9] = [
    "for",
    "has",
    "is",
    "js",
    "no",
    "non",
    "not",
    "with",
    "without",
];
