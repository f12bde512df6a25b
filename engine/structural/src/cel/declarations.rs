//! The functions that expressions may call: those of cel-go's standard library, of its extensions for strings, lists, sets, optionals and
//! two-variable comprehensions, and those of Kubernetes.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::library::{self, Run};
use super::named_format::FORMATS;
use super::types::{OPTIONAL, Type};

/// A function with all its signatures.
#[derive(Debug)]
pub(crate) struct Function {
    pub(super) name: &'static str,
    pub(super) overloads: Vec<Overload>,
    pub(super) run: Option<Run>,
}

/// One signature.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) id: &'static str,
    /// Called on its first parameter.
    pub(super) member: bool,
    pub(super) parameters: Vec<Type>,
    pub(super) result: Type,
}

/// Each line is a name (after a dot, if it is called on its first parameter), an id, parameters, and a result. `A` and `B` are any type.
const SIGNATURES: &str = "
_?_:_ conditional (bool,A,A) A
_&&_ logical_and (bool,bool) bool
_||_ logical_or (bool,bool) bool
!_ logical_not (bool) bool
@not_strictly_false not_strictly_false (bool) bool
_==_ equals (A,A) bool
_!=_ not_equals (A,A) bool
_+_ add_bytes (bytes,bytes) bytes
_+_ add_double (double,double) double
_+_ add_duration_duration (duration,duration) duration
_+_ add_duration_timestamp (duration,timestamp) timestamp
_+_ add_timestamp_duration (timestamp,duration) timestamp
_+_ add_int64 (int,int) int
_+_ add_list (list(A),list(A)) list(A)
_+_ add_string (string,string) string
_+_ add_uint64 (uint,uint) uint
_/_ divide_double (double,double) double
_/_ divide_int64 (int,int) int
_/_ divide_uint64 (uint,uint) uint
_%_ modulo_int64 (int,int) int
_%_ modulo_uint64 (uint,uint) uint
_*_ multiply_double (double,double) double
_*_ multiply_int64 (int,int) int
_*_ multiply_uint64 (uint,uint) uint
-_ negate_double (double) double
-_ negate_int64 (int) int
_-_ subtract_double (double,double) double
_-_ subtract_duration_duration (duration,duration) duration
_-_ subtract_int64 (int,int) int
_-_ subtract_timestamp_duration (timestamp,duration) timestamp
_-_ subtract_timestamp_timestamp (timestamp,timestamp) duration
_-_ subtract_uint64 (uint,uint) uint
_[_] index_list (list(A),int) A
_[_] index_map (map(A,B),A) B
_[_] optional_list_index_int (optional(list(A)),int) optional(A)
_[_] optional_map_index_value (optional(map(A,B)),A) optional(B)
_[?_] list_optindex_optional_int (list(A),int) optional(A)
_[?_] optional_list_optindex_optional_int (optional(list(A)),int) optional(A)
_[?_] map_optindex_optional_value (map(A,B),A) optional(B)
_[?_] optional_map_optindex_optional_value (optional(map(A,B)),A) optional(B)
_?._ select_optional_field (dyn,string) optional(A)
@in in_list (A,list(A)) bool
@in in_map (A,map(A,B)) bool
size size_bytes (bytes) int
.size bytes_size (bytes) int
size size_list (list(A)) int
.size list_size (list(A)) int
size size_map (map(A,B)) int
.size map_size (map(A,B)) int
size size_string (string) int
.size string_size (string) int
type type (A) type(A)
bool bool_to_bool (bool) bool
bool string_to_bool (string) bool
bytes bytes_to_bytes (bytes) bytes
bytes string_to_bytes (string) bytes
double double_to_double (double) double
double int64_to_double (int) double
double string_to_double (string) double
double uint64_to_double (uint) double
duration duration_to_duration (duration) duration
duration int64_to_duration (int) duration
duration string_to_duration (string) duration
dyn to_dyn (A) dyn
int int64_to_int64 (int) int
int double_to_int64 (double) int
int duration_to_int64 (duration) int
int string_to_int64 (string) int
int timestamp_to_int64 (timestamp) int
int uint64_to_int64 (uint) int
string string_to_string (string) string
string bool_to_string (bool) string
string bytes_to_string (bytes) string
string double_to_string (double) string
string duration_to_string (duration) string
string int64_to_string (int) string
string timestamp_to_string (timestamp) string
string uint64_to_string (uint) string
string ip_to_string (net.IP) string
string cidr_to_string (net.CIDR) string
timestamp timestamp_to_timestamp (timestamp) timestamp
timestamp int64_to_timestamp (int) timestamp
timestamp string_to_timestamp (string) timestamp
uint uint64_to_uint64 (uint) uint
uint double_to_uint64 (double) uint
uint int64_to_uint64 (int) uint
uint string_to_uint64 (string) uint
.contains contains_string (string,string) bool
.endsWith ends_with_string (string,string) bool
.startsWith starts_with_string (string,string) bool
matches matches (string,string) bool
.matches matches_string (string,string) bool
.getFullYear timestamp_to_year (timestamp) int
.getFullYear timestamp_to_year_with_tz (timestamp,string) int
.getMonth timestamp_to_month (timestamp) int
.getMonth timestamp_to_month_with_tz (timestamp,string) int
.getDayOfYear timestamp_to_day_of_year (timestamp) int
.getDayOfYear timestamp_to_day_of_year_with_tz (timestamp,string) int
.getDayOfMonth timestamp_to_day_of_month (timestamp) int
.getDayOfMonth timestamp_to_day_of_month_with_tz (timestamp,string) int
.getDate timestamp_to_day_of_month_1_based (timestamp) int
.getDate timestamp_to_day_of_month_1_based_with_tz (timestamp,string) int
.getDayOfWeek timestamp_to_day_of_week (timestamp) int
.getDayOfWeek timestamp_to_day_of_week_with_tz (timestamp,string) int
.getHours timestamp_to_hours (timestamp) int
.getHours timestamp_to_hours_with_tz (timestamp,string) int
.getHours duration_to_hours (duration) int
.getMinutes timestamp_to_minutes (timestamp) int
.getMinutes timestamp_to_minutes_with_tz (timestamp,string) int
.getMinutes duration_to_minutes (duration) int
.getSeconds timestamp_to_seconds (timestamp) int
.getSeconds timestamp_to_seconds_tz (timestamp,string) int
.getSeconds duration_to_seconds (duration) int
.getMilliseconds timestamp_to_milliseconds (timestamp) int
.getMilliseconds timestamp_to_milliseconds_with_tz (timestamp,string) int
.getMilliseconds duration_to_milliseconds (duration) int
optional.of optional_of (A) optional(A)
optional.ofNonZeroValue optional_ofNonZeroValue (A) optional(A)
optional.none optional_none () optional(A)
.value optional_value (optional(A)) A
.hasValue optional_hasValue (optional(A)) bool
.or optional_or_optional (optional(A),optional(A)) optional(A)
.orValue optional_orValue_value (optional(A),A) A
optional.unwrap optional_unwrap (list(optional(A))) list(A)
.unwrapOpt optional_unwrapOpt (list(optional(A))) list(A)
.first list_first (list(A)) optional(A)
.last list_last (list(A)) optional(A)
cel.@mapInsert @mapInsert_map_key_value (map(A,B),A,B) map(A,B)
cel.@mapInsert @mapInsert_map_map (map(A,B),map(A,B)) map(A,B)
.charAt string_char_at_int (string,int) string
.indexOf string_index_of_string (string,string) int
.indexOf string_index_of_string_int (string,string,int) int
.indexOf list_a_index_of_int (list(A),A) int
.lastIndexOf string_last_index_of_string (string,string) int
.lastIndexOf string_last_index_of_string_int (string,string,int) int
.lastIndexOf list_a_last_index_of_int (list(A),A) int
.lowerAscii string_lower_ascii (string) string
.upperAscii string_upper_ascii (string) string
.replace string_replace_string_string (string,string,string) string
.replace string_replace_string_string_int (string,string,string,int) string
.split string_split_string (string,string) list(string)
.split string_split_string_int (string,string,int) list(string)
.substring string_substring_int (string,int) string
.substring string_substring_int_int (string,int,int) string
.trim string_trim (string) string
.format string_format (string,list(dyn)) string
strings.quote strings_quote (string) string
.join list_join (list(string)) string
.join list_join_string (list(string),string) string
sets.contains list_sets_contains_list (list(A),list(A)) bool
sets.equivalent list_sets_equivalent_list (list(A),list(A)) bool
sets.intersects list_sets_intersects_list (list(A),list(A)) bool
.slice list_slice (list(A),int,int) list(A)
.flatten list_flatten (list(list(A))) list(A)
.flatten list_flatten_int (list(dyn),int) list(dyn)
lists.range lists_range (int) list(int)
.reverse list_reverse (list(A)) list(A)
.distinct list_distinct (list(A)) list(A)
.find string_find_string (string,string) string
.findAll string_find_all_string (string,string) list(string)
.findAll string_find_all_string_int (string,string,int) list(string)
url string_to_url (string) kubernetes.URL
isURL is_url_string (string) bool
.getScheme url_get_scheme (kubernetes.URL) string
.getHost url_get_host (kubernetes.URL) string
.getHostname url_get_hostname (kubernetes.URL) string
.getPort url_get_port (kubernetes.URL) string
.getEscapedPath url_get_escaped_path (kubernetes.URL) string
.getQuery url_get_query (kubernetes.URL) map(string,list(string))
ip string_to_ip (string) net.IP
isIP is_ip (string) bool
ip.isCanonical ip_is_canonical (string) bool
.family ip_family (net.IP) int
.isUnspecified ip_is_unspecified (net.IP) bool
.isLoopback ip_is_loopback (net.IP) bool
.isLinkLocalMulticast ip_is_link_local_multicast (net.IP) bool
.isLinkLocalUnicast ip_is_link_local_unicast (net.IP) bool
.isGlobalUnicast ip_is_global_unicast (net.IP) bool
cidr string_to_cidr (string) net.CIDR
isCIDR is_cidr (string) bool
.containsIP cidr_contains_ip_string (net.CIDR,string) bool
.containsIP cidr_contains_ip_ip (net.CIDR,net.IP) bool
.containsCIDR cidr_contains_cidr_string (net.CIDR,string) bool
.containsCIDR cidr_contains_cidr (net.CIDR,net.CIDR) bool
.ip cidr_ip (net.CIDR) net.IP
.prefixLength cidr_prefix_length (net.CIDR) int
.masked cidr_masked (net.CIDR) net.CIDR
quantity string_to_quantity (string) kubernetes.Quantity
isQuantity is_quantity_string (string) bool
sign quantity_sign (kubernetes.Quantity) int
.isGreaterThan quantity_is_greater_than (kubernetes.Quantity,kubernetes.Quantity) bool
.isGreaterThan semver_is_greater_than (kubernetes.Semver,kubernetes.Semver) bool
.isLessThan quantity_is_less_than (kubernetes.Quantity,kubernetes.Quantity) bool
.isLessThan semver_is_less_than (kubernetes.Semver,kubernetes.Semver) bool
.compareTo quantity_compare_to (kubernetes.Quantity,kubernetes.Quantity) int
.compareTo semver_compare_to (kubernetes.Semver,kubernetes.Semver) int
.asApproximateFloat quantity_get_float (kubernetes.Quantity) double
.asInteger quantity_get_int (kubernetes.Quantity) int
.isInteger quantity_is_integer (kubernetes.Quantity) bool
.add quantity_add (kubernetes.Quantity,kubernetes.Quantity) kubernetes.Quantity
.add quantity_add_int (kubernetes.Quantity,int) kubernetes.Quantity
.sub quantity_sub (kubernetes.Quantity,kubernetes.Quantity) kubernetes.Quantity
.sub quantity_sub_int (kubernetes.Quantity,int) kubernetes.Quantity
semver string_to_semver (string) kubernetes.Semver
semver string_bool_to_semver (string,bool) kubernetes.Semver
isSemver is_semver_string (string) bool
isSemver is_semver_string_bool (string,bool) bool
.major semver_major (kubernetes.Semver) int
.minor semver_minor (kubernetes.Semver) int
.patch semver_patch (kubernetes.Semver) int
format.named format-named (string) optional(kubernetes.NamedFormat)
.validate format-validate (kubernetes.NamedFormat,string) optional(list(string))
.path authorizer_path (kubernetes.authorization.Authorizer,string) kubernetes.authorization.PathCheck
.group authorizer_group (kubernetes.authorization.Authorizer,string) kubernetes.authorization.GroupCheck
.serviceAccount authorizer_serviceaccount (kubernetes.authorization.Authorizer,string,string) kubernetes.authorization.Authorizer
.resource groupcheck_resource (kubernetes.authorization.GroupCheck,string) kubernetes.authorization.ResourceCheck
.subresource resourcecheck_subresource (kubernetes.authorization.ResourceCheck,string) kubernetes.authorization.ResourceCheck
.namespace resourcecheck_namespace (kubernetes.authorization.ResourceCheck,string) kubernetes.authorization.ResourceCheck
.name resourcecheck_name (kubernetes.authorization.ResourceCheck,string) kubernetes.authorization.ResourceCheck
.fieldSelector authorizer_fieldselector (kubernetes.authorization.ResourceCheck,string) kubernetes.authorization.ResourceCheck
.labelSelector authorizer_labelselector (kubernetes.authorization.ResourceCheck,string) kubernetes.authorization.ResourceCheck
.check pathcheck_check (kubernetes.authorization.PathCheck,string) kubernetes.authorization.Decision
.check resourcecheck_check (kubernetes.authorization.ResourceCheck,string) kubernetes.authorization.Decision
.errored decision_errored (kubernetes.authorization.Decision) bool
.error decision_error (kubernetes.authorization.Decision) string
.allowed decision_allowed (kubernetes.authorization.Decision) bool
.reason decision_reason (kubernetes.authorization.Decision) string
";

/// Types that can be ordered, beside each pair of numbers.
const ORDERED: [&str; 5] = ["bool", "string", "bytes", "timestamp", "duration"];
const NUMBERS: [&str; 3] = ["int", "uint", "double"];
/// Types whose lists can be compared and sorted.
const COMPARABLE: [&str; 8] = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"];

static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(declare);

pub(super) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

/// Names that stand for types.
pub(super) fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "type" => Type::type_of(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "string" => Type::String,
        "uint" => Type::Uint,
        "net.IP" => Type::Opaque("net.IP", Vec::new()),
        "net.CIDR" => Type::Opaque("net.CIDR", Vec::new()),
        _ => return None,
    })
}

fn declare() -> HashMap<&'static str, Function> {
    let mut functions: HashMap<&'static str, Function> = HashMap::new();
    let mut add = |name: &'static str, id: &'static str, parameters: Vec<Type>, result: Type| {
        let (member, name) = match name.strip_prefix('.') {
            Some(name) => (true, name),
            None => (false, name),
        };
        let function = functions.entry(name).or_insert_with(|| Function {
            name,
            overloads: Vec::new(),
            run: library::implementation(name),
        });
        function.overloads.push(Overload { id, member, parameters, result });
    };
    for line in SIGNATURES.lines() {
        let mut parts = line.split(' ');
        if let (Some(name), Some(id), Some(parameters), Some(result)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        {
            let inside = parameters.trim_start_matches('(').strip_suffix(')').unwrap_or_default();
            add(name, id, split(inside).into_iter().map(read_type).collect(), read_type(result));
        }
    }
    for (name, _) in FORMATS {
        add(name, "format", Vec::new(), Type::Opaque("kubernetes.NamedFormat", Vec::new()));
    }
    for name in ["_<_", "_<=_", "_>_", "_>=_"] {
        for of in ORDERED {
            let id = if matches!(of, "string" | "bytes") { "less_string" } else { "less" };
            add(name, id, vec![read_type(of), read_type(of)], Type::Bool);
        }
        for (left, right) in NUMBERS.into_iter().flat_map(|left| NUMBERS.map(|right| (left, right))) {
            add(name, "less", vec![read_type(left), read_type(right)], Type::Bool);
        }
    }
    for of in COMPARABLE {
        let list = || vec![Type::list(read_type(of))];
        add(".isSorted", "list_is_sorted", list(), Type::Bool);
        add(".min", "list_min", list(), read_type(of));
        add(".max", "list_max", list(), read_type(of));
        add(".sort", "list_sort", list(), Type::list(read_type(of)));
        let keyed = vec![Type::list(Type::Parameter(0)), Type::list(read_type(of))];
        add(".@sortByAssociatedKeys", "list_sort_by", keyed, Type::list(Type::Parameter(0)));
        if matches!(of, "int" | "uint" | "double" | "duration") {
            add(".sum", "list_sum", list(), read_type(of));
        }
    }
    functions
}

/// The parts between the commas that are in no parentheses.
fn split(text: &'static str) -> Vec<&'static str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.extend(text.get(start..i));
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..).filter(|part| !part.is_empty()));
    parts
}

fn read_type(text: &'static str) -> Type {
    if let Some((head, inside)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let mut inside = split(inside).into_iter().map(read_type);
        let (first, second) = (inside.next().unwrap_or_default(), inside.next().unwrap_or_default());
        return match head {
            "list" => Type::list(first),
            "map" => Type::map(first, second),
            "type" => Type::Type(Arc::new(first)),
            _ => Type::Opaque(OPTIONAL, vec![first]),
        };
    }
    match text {
        "A" => Type::Parameter(0),
        "B" => Type::Parameter(1),
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        name => Type::Opaque(name, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_that_is_declared_can_be_called() {
        let special = ["_?_:_", "_&&_", "_||_", "@not_strictly_false", "_?._"];
        for function in FUNCTIONS.values() {
            assert!(function.run.is_some() || special.contains(&function.name), "{}", function.name);
            assert!(!function.overloads.is_empty());
        }
    }
}
