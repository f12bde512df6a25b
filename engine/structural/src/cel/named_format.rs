//! Formats as values: what text can be checked against by name.

use pillion_rules::{format as names, metadata};

use crate::format::Format;
use crate::go_url::Url;

/// A format that an expression can check text against, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedFormat(&'static str);

/// The functions that give a format, and the size of its pattern, by which checking text against it is charged.
pub(super) const FORMATS: [(&str, u64); 13] = [
    ("format.dns1123Label", 30),
    ("format.dns1123LabelPrefix", 30),
    ("format.dns1123Subdomain", 60),
    ("format.dns1123SubdomainPrefix", 60),
    ("format.dns1035Label", 30),
    ("format.dns1035LabelPrefix", 30),
    ("format.qualifiedName", 60),
    ("format.labelValue", 40),
    ("format.uri", 1103),
    ("format.uuid", 70),
    ("format.byte", 84),
    ("format.date", 71),
    ("format.datetime", 71),
];

impl NamedFormat {
    pub(super) fn named(name: &str) -> Option<NamedFormat> {
        let mut names = FORMATS.into_iter().filter_map(|(function, _)| function.strip_prefix("format."));
        names.find(|known| *known == name).map(NamedFormat)
    }

    pub(crate) fn pattern_size(self) -> u64 {
        FORMATS
            .into_iter()
            .find(|(function, _)| function.strip_prefix("format.") == Some(self.0))
            .map_or(0, |(_, size)| size)
    }

    pub(super) fn complaints(self, text: &str) -> Vec<String> {
        let openapi = |format: Format, complaint: &str| {
            if format.matches(text) { Vec::new() } else { vec![complaint.to_owned()] }
        };
        match self.0 {
            "dns1123Label" => metadata::label_name(text, false),
            "dns1123LabelPrefix" => metadata::label_name(text, true),
            "dns1123Subdomain" => metadata::subdomain_name(text, false),
            "dns1123SubdomainPrefix" => metadata::subdomain_name(text, true),
            "dns1035Label" => metadata::dns1035_name(text, false),
            "dns1035LabelPrefix" => metadata::dns1035_name(text, true),
            "qualifiedName" => names::qualified_name(text),
            "labelValue" => names::label_value(text),
            "uuid" => openapi(Format::Uuid, "does not match the UUID format"),
            "byte" => openapi(Format::Byte, "invalid base64"),
            "date" => openapi(Format::Date, "invalid date"),
            "datetime" => openapi(Format::DateTime, "invalid datetime"),
            _ => Url::parse_request_uri(text).err().into_iter().collect(),
        }
    }
}
