//! What the author of a faulty expression probably meant.

use crate::text::{one_line, short};

const VARIABLES: [&str; 2] = ["cpu", "memory"];
const FUNCTIONS: [&str; 2] = ["max", "min"];

/// Help for a name that is neither a variable nor a function.
pub(crate) fn for_name(name: &str) -> String {
    let near = match name.to_lowercase().as_str() {
        "core" | "cores" => Some("cpu"),
        "ram" => Some("memory"),
        name => nearest(name, &[VARIABLES, FUNCTIONS].concat()),
    };
    near.map_or_else(
        || "the variables are `cpu` and `memory`, the functions `max` and `min`".to_owned(),
        |known| format!("did you mean `{known}`?"),
    )
}

/// Help for a call of something that is no function.
pub(crate) fn for_function(name: &str) -> String {
    nearest(&name.to_lowercase(), &FUNCTIONS)
        .map_or_else(|| "the functions are `max` and `min`".to_owned(), |known| format!("did you mean `{known}`?"))
}

/// The one that begins like the name (`mem`, `cpus`, `maximum`), or from which it differs by few letters (`memroy`).
fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let same_beginning = |known: &&str| name.starts_with(*known) || name.len() > 2 && known.starts_with(name);
    let distance = |known: &&str| strsim::osa_distance(known, name);
    let known = known.iter().copied();
    known
        .clone()
        .find(same_beginning)
        .or_else(|| known.min_by_key(distance).filter(|best| distance(best) <= best.len() / 3))
}

/// Help for two values without an operator between them.
pub(crate) fn product(left: &str, right: &str) -> String {
    format!("to multiply, write `{}*{}`", short(&one_line(left)), short(&one_line(right)))
}

/// Whether what follows a number is a name, so that a multiplication was meant.
pub(crate) fn is_name(suffix: &str) -> bool {
    VARIABLES.iter().chain(&FUNCTIONS).any(|known| known.eq_ignore_ascii_case(suffix))
}

/// Help for a number with something behind it that is no unit.
pub(crate) fn for_unit(number: &str, suffix: &str) -> String {
    let lower = suffix.to_lowercase();
    let number = short(number);
    if lower == "e" {
        return format!("an exponent has digits, as in `{number}e3`; the unit exa is `{number}E`");
    }
    match near_units(&lower).as_slice() {
        [decimal, binary] => {
            format!("did you mean `{number}{decimal}` (powers of 1000) or `{number}{binary}` (powers of 1024)?")
        }
        [unit] => format!("did you mean `{number}{unit}`?"),
        _ => match (lower.as_str(), nearest(&lower, &VARIABLES)) {
            ("b" | "byte" | "bytes" | "core" | "cores", _) => format!("bytes and cores have no unit, write `{number}`"),
            (_, Some(variable)) => format!("did you mean `{number}*{variable}`?"),
            (_, None) => "the units are n u m k M G T P E and Ki Mi Gi Ti Pi Ei".to_owned(),
        },
    }
}

/// The units that a wrong one in lower case may stand for: `mi` is Mi, `mb` and `k` are either of the two families.
fn near_units(suffix: &str) -> Vec<String> {
    let stem = suffix.strip_suffix('b').unwrap_or(suffix);
    let (letter, is_binary) = stem.strip_suffix('i').map_or((stem, false), |letter| (letter, true));
    match (letter, letter.to_uppercase()) {
        ("n" | "u", _) if !is_binary => vec![letter.to_owned()],
        ("µ" | "μ", _) if !is_binary => vec!["u".to_owned()],
        ("k" | "m" | "g" | "t" | "p" | "e", upper) if is_binary => vec![format!("{upper}i")],
        ("k", upper) => vec!["k".to_owned(), format!("{upper}i")],
        ("m" | "g" | "t" | "p" | "e", upper) => vec![upper.clone(), format!("{upper}i")],
        _ => Vec::new(),
    }
}

/// Help for a character that has no meaning.
pub(crate) fn for_character(character: char) -> Option<&'static str> {
    Some(match character {
        '%' => "`%` means percent and follows a number, as in `50%`; there is no modulo",
        '^' => "there is no power operator",
        '×' | '·' | '∙' | '⋅' => "multiplication is written `*`",
        '÷' | ':' => "division is written `/`",
        '−' | '–' | '—' => "minus is written `-`, with the ASCII hyphen",
        '[' | ']' | '{' | '}' => "only round parentheses group",
        ';' | '，' | '、' => "arguments are separated by `,`",
        '（' | '）' => "parentheses are the ASCII `(` and `)`",
        '<' | '>' | '=' | '!' | '?' | '&' | '|' => "there are no conditions; `max` and `min` choose between values",
        '$' | '"' | '\'' | '`' | '@' | '#' => "variables are plain words: `cpu` or `memory`",
        _ => return None,
    })
}
