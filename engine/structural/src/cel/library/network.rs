//! Addresses and networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Call, Fault, Outcome, Run};
use crate::cel::cidr::Cidr;
use crate::cel::value::Value;

pub(super) fn implementation(name: &str) -> Option<Run> {
    Some(match name {
        "ip" => |call| match call.args.as_slice() {
            [Value::String(text)] => parse_ip(text).map(Value::Ip),
            [Value::Cidr(cidr)] => Ok(Value::Ip(cidr.address)),
            _ => Err(Fault::no_such_overload()),
        },
        "isIP" => |call| on_text(&call, |text| Ok(Value::Bool(parse_ip(text).is_ok()))),
        "ip.isCanonical" => |call| on_text(&call, |text| parse_ip(text).map(|ip| Value::Bool(ip.to_string() == text))),
        "family" => |call| on_ip(&call, |ip| Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        "isUnspecified" => |call| on_ip(&call, |ip| Value::Bool(ip.is_unspecified())),
        "isLoopback" => |call| on_ip(&call, |ip| Value::Bool(ip.is_loopback())),
        "isLinkLocalMulticast" => |call| on_ip(&call, |ip| Value::Bool(is_link_local_multicast(ip))),
        "isLinkLocalUnicast" => |call| on_ip(&call, |ip| Value::Bool(is_link_local_unicast(ip))),
        "isGlobalUnicast" => |call| on_ip(&call, |ip| Value::Bool(is_global_unicast(ip))),
        "cidr" => |call| {
            on_text(&call, |text| match parse_cidr(text) {
                Ok(cidr) => Ok(Value::Cidr(cidr)),
                Err(reason) => {
                    Err(Fault::error(format!("network address parse error during conversion from string: {reason}")))
                }
            })
        },
        "isCIDR" => |call| on_text(&call, |text| Ok(Value::Bool(parse_cidr(text).is_ok()))),
        "containsIP" => |call| match call.args.as_slice() {
            [Value::Cidr(cidr), Value::Ip(ip)] => Ok(Value::Bool(contains(*cidr, *ip))),
            [Value::Cidr(cidr), Value::String(text)] => parse_ip(text).map(|ip| Value::Bool(contains(*cidr, ip))),
            _ => Err(Fault::no_such_overload()),
        },
        "containsCIDR" => |call| match call.args.as_slice() {
            [Value::Cidr(cidr), Value::Cidr(other)] => Ok(Value::Bool(contains_network(*cidr, *other))),
            [Value::Cidr(cidr), Value::String(text)] => match parse_cidr(text) {
                Ok(other) => Ok(Value::Bool(contains_network(*cidr, other))),
                Err(reason) => {
                    Err(Fault::error(format!("network address parse error during conversion from string: {reason}")))
                }
            },
            _ => Err(Fault::no_such_overload()),
        },
        "prefixLength" => |call| on_cidr(&call, |cidr| Value::Int(cidr.bits.into())),
        "masked" => |call| on_cidr(&call, |cidr| Value::Cidr(Cidr { address: masked(cidr), bits: cidr.bits })),
        _ => return None,
    })
}

fn on_text<'a>(call: &Call<'a>, run: fn(&str) -> Outcome<'static>) -> Outcome<'a> {
    match call.args.as_slice() {
        [Value::String(text)] => run(text),
        _ => Err(Fault::no_such_overload()),
    }
}

fn on_ip<'a>(call: &Call<'a>, run: fn(&IpAddr) -> Value<'static>) -> Outcome<'a> {
    match call.args.as_slice() {
        [Value::Ip(ip)] => Ok(run(ip)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn on_cidr<'a>(call: &Call<'a>, run: fn(&Cidr) -> Value<'static>) -> Outcome<'a> {
    match call.args.as_slice() {
        [Value::Cidr(cidr)] => Ok(run(cidr)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, Fault> {
    let shown = pillion_rules::field::quoted(text);
    if text.contains('%') {
        return Err(Fault::error(format!("IP address {shown} with zone value is not allowed")));
    }
    match text.parse() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(Fault::error(format!("IPv4-mapped IPv6 address {shown} is not allowed")))
        }
        Ok(address) => Ok(address),
        Err(_) => {
            let reason = format!("ParseAddr({shown}): unable to parse IP");
            Err(Fault::error(format!("IP Address {shown} parse error during conversion from string: {reason}")))
        }
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    let shown = pillion_rules::field::quoted(text);
    let Some((address, bits)) = text.rsplit_once('/') else {
        return Err(format!("netip.ParsePrefix({shown}): no '/'"));
    };
    let plain = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let Ok(address) = address.parse::<IpAddr>() else {
        let reason = format!("ParseAddr({}): unable to parse IP", pillion_rules::field::quoted(address));
        return Err(format!("netip.ParsePrefix({shown}): {reason}"));
    };
    if let IpAddr::V6(address) = address
        && address.to_ipv4_mapped().is_some()
    {
        return Err(format!("IPv4-mapped IPv6 address {shown} is not allowed"));
    }
    let most = if address.is_ipv4() { 32 } else { 128 };
    match bits.parse::<u8>() {
        Ok(bits) if plain && bits <= most => Ok(Cidr { address, bits }),
        Ok(_) if plain => Err(format!("netip.ParsePrefix({shown}): prefix length out of range")),
        _ => Err(format!("netip.ParsePrefix({shown}): bad bits after slash: {}", pillion_rules::field::quoted(bits))),
    }
}

fn masked(cidr: &Cidr) -> IpAddr {
    match cidr.address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(cidr.bits)).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(cidr.bits)).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

fn contains(cidr: Cidr, ip: IpAddr) -> bool {
    cidr.address.is_ipv4() == ip.is_ipv4() && masked(&Cidr { address: ip, bits: cidr.bits }) == masked(&cidr)
}

fn contains_network(cidr: Cidr, other: Cidr) -> bool {
    cidr.bits <= other.bits && contains(cidr, other.address)
}

fn is_link_local_multicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(ip) => ip.segments().first().is_some_and(|head| head & 0xff0f == 0xff02),
    }
}

fn is_link_local_unicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments().first().is_some_and(|head| head & 0xffc0 == 0xfe80),
    }
}

fn is_global_unicast(ip: &IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !ip.is_unspecified() && !broadcast && !ip.is_loopback() && !ip.is_multicast() && !is_link_local_unicast(ip)
}
