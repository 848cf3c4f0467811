//! Frame formats as data: which bits of the header are addresses, traffic class and EtherType.
//!
//! Built-in: Standard, AFH Gen 1, AFH Gen 2 with 16-bit addresses (public order of the octets), AFH Lite.
//! A `[format.NAME]` table starts from one of them. Everything is checked here: fields inside the header, no
//! overlap, key width; a parser may rely on it.

use toml::de::DeValue;

use super::diag::Span;
use super::read::{Ctx, Section, check_name, word};
use super::schema;
use super::types::{EcnMode, Trust};
use super::units::{BOOL, Bad, Kind, TEXT, integer};

/// A run of bits, counted from the first wire bit of the frame, most significant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// First bit.
    pub off: u16,
    /// Bits, 1 to 48.
    pub len: u16,
}

impl Field {
    const fn new(off: u16, len: u16) -> Self {
        Self { off, len }
    }

    fn end(self) -> u16 {
        self.off + self.len
    }
}

/// One frame format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatConfig {
    /// Its name.
    pub name: String,
    /// Bytes before the payload, without VLAN tag.
    pub header_len: u16,
    /// Destination address.
    pub dst: Field,
    /// Source address.
    pub src: Field,
    /// Flags octet `W V - - Z Y X M`.
    pub flags: Option<Field>,
    /// Traffic-class octet.
    pub tc: Option<Field>,
    /// Bits without meaning to a switch.
    pub spare: Vec<Field>,
    /// Bits of the destination that are looked up; at most 48, as many as in `key_src`.
    pub key_dst: Field,
    /// Bits of the source that are learnt.
    pub key_src: Field,
    /// EtherType frames of this format carry; `None`: any, or none at all.
    pub ethertype: Option<u16>,
    /// Bit where the EtherType is; `None`: the header has none.
    pub ethertype_off: Option<u16>,
    /// A VLAN tag may precede the EtherType.
    pub vlan: bool,
    /// Sources of the traffic class unless the port says otherwise.
    pub trust: Vec<Trust>,
    /// Where the ECN field is.
    pub ecn: EcnMode,
    /// Ports of this format learn unless they say otherwise.
    pub learning: bool,
    /// What UDP port 4791 carries has a reliability header, not a BTH: CNPs and ACKs are told by that (DEV-06).
    pub rclink: bool,
}

impl FormatConfig {
    /// No EtherType and no VLAN tag: priorities can only come from the traffic-class octet.
    pub fn is_lite(&self) -> bool {
        self.ethertype_off.is_none()
    }

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let mut all = vec![("dst", self.dst), ("src", self.src)];
        all.extend(self.flags.map(|f| ("flags", f)));
        all.extend(self.tc.map(|f| ("tc", f)));
        all.extend(self.spare.iter().map(|f| ("spare", *f)));
        all.extend(self.ethertype_off.map(|off| ("ethertype", Field::new(off, 16))));
        all.sort_by_key(|(_, f)| *f);
        all
    }
}

/// How many are built in.
const BUILT_IN: usize = 5;

/// The built-in formats. AFH EtherType 0x88B5 is the local experimental one.
pub(super) fn built_in() -> Vec<FormatConfig> {
    let standard = FormatConfig {
        name: "standard".into(),
        header_len: 14,
        dst: Field::new(0, 48),
        src: Field::new(48, 48),
        flags: None,
        tc: None,
        spare: vec![],
        key_dst: Field::new(0, 48),
        key_src: Field::new(48, 48),
        ethertype: None,
        ethertype_off: Some(96),
        vlan: true,
        trust: vec![Trust::Pcp, Trust::Dscp],
        ecn: EcnMode::Ecn,
        learning: true,
        rclink: false,
    };
    let gen1 = FormatConfig {
        name: "afh_gen1".into(),
        tc: Some(Field::new(48, 8)),
        src: Field::new(56, 40),
        key_dst: Field::new(8, 40),
        key_src: Field::new(56, 40),
        ethertype: Some(0x88b5),
        trust: vec![Trust::Pcp, Trust::Tc],
        ecn: EcnMode::None,
        learning: false,
        ..standard.clone()
    };
    let gen2 = FormatConfig {
        name: "afh_gen2_16b".into(),
        flags: Some(Field::new(0, 8)),
        dst: Field::new(32, 16),
        src: Field::new(80, 16),
        spare: vec![Field::new(8, 24), Field::new(56, 24)],
        key_dst: Field::new(32, 16),
        key_src: Field::new(80, 16),
        ..gen1.clone()
    };
    let lite = FormatConfig {
        name: "afh_lite".into(),
        header_len: 12,
        ethertype: None,
        ethertype_off: None,
        vlan: false,
        trust: vec![Trust::Tc],
        ..gen2.clone()
    };
    let paxi = FormatConfig { name: "paxi_standard".into(), rclink: true, ..standard.clone() };
    vec![standard, gen1, gen2, lite, paxi]
}

/// The built-in formats and those of `[format.NAME]`.
pub(super) fn read(ctx: &mut Ctx<'_>, root: &Section<'_>) -> Vec<FormatConfig> {
    let mut formats = built_in();
    let named = root.table(ctx, "format", &schema::FORMATS);
    for (name, _) in named.free(ctx) {
        check_name(ctx, &name, "a format");
        if formats.iter().any(|f| f.name == name.v) {
            let message = format!("the format `{}` is built in", name.v);
            ctx.error(name.span, "format.name", message, "choose another name and `inherit` from it");
            continue;
        }
        let before = ctx.found.noted;
        let section = named.table(ctx, &name.v, &schema::FORMAT);
        if let Some(format) = read_one(ctx, &section, &name.v, &formats) {
            // Fields that were refused left inherited ones behind: what they clash with says nothing.
            if ctx.found.noted == before {
                check(ctx, &format, &FieldsAt { section: Some(&section), name: name.span });
            }
            // What the parser cannot read is refused here, not when the switch is to start.
            if ctx.found.noted == before
                && let Err(why) = crate::runtime::format_spec(formats.len(), &format).check()
            {
                let message = format!("format `{}`: {why}", name.v);
                ctx.error(
                    name.span,
                    "format.parse",
                    message,
                    "change the keys it names, or inherit from another format",
                );
            }
            formats.push(format);
        }
    }
    formats
}

fn read_one(ctx: &mut Ctx<'_>, s: &Section<'_>, name: &str, known: &[FormatConfig]) -> Option<FormatConfig> {
    let inherit = s.or(ctx, "inherit", &TEXT, "standard".into(), "the format every switch knows");
    let Some(base) = known[..BUILT_IN].iter().find(|f| f.name == inherit.v) else {
        let message = format!("`{}` is not a built-in format", inherit.v);
        ctx.error(
            inherit.span,
            "format.inherit",
            message,
            "use standard, afh_gen1, afh_gen2_16b, afh_lite or paxi_standard",
        );
        return None;
    };
    let mut f = FormatConfig { name: name.to_owned(), ..base.clone() };
    const VARIANT: Kind<bool> = Kind {
        parse: |v| word(v, &[false, true], |rclink| if rclink { "rclink" } else { "public" }),
        show: |rclink| if *rclink { "rclink".into() } else { "public".into() },
    };
    if s.get(ctx, "variant", &VARIANT).is_some_and(|v| v.v) {
        std::mem::swap(&mut f.flags, &mut f.tc);
    }
    if let Some(n) = s.int(ctx, "header_len", 12..=16) {
        f.header_len = n.v as u16;
    }
    let (dst, src) = (s.get(ctx, "dst", &FIELD), s.get(ctx, "src", &FIELD));
    if let Some(dst) = dst {
        (f.dst, f.key_dst) = (dst.v, dst.v);
    }
    if let Some(src) = src {
        (f.src, f.key_src) = (src.v, src.v);
    }
    f.flags = s.get(ctx, "flags", &FIELD).map(|v| v.v).or(f.flags);
    f.tc = s.get(ctx, "tc", &FIELD).map(|v| v.v).or(f.tc);
    if let Some(spare) = s.list(ctx, "spare") {
        f.spare.clear();
        for item in spare {
            match (FIELD.parse)(item.v) {
                Ok(field) => f.spare.push(field),
                Err(bad) => ctx.error(item.span, "value", format!("spare: {}", bad.message), bad.remedy),
            }
        }
        s.explain_list(ctx, "spare", f.spare.iter().map(FIELD.show));
    }
    let key = s.table(ctx, "fdb_key", &schema::FDB_KEY);
    f.key_dst = key.get(ctx, "dst", &FIELD).map_or(f.key_dst, |v| v.v);
    f.key_src = key.get(ctx, "src", &FIELD).map_or(f.key_src, |v| v.v);
    if let Some(off) = s.int(ctx, "ethertype_off", 0..=496) {
        f.ethertype_off = Some(off.v as u16);
    }
    if let Some(raw) = s.raw(ctx, "ethertype") {
        if raw.v.as_str() == Some("absent") {
            s.explain_list(ctx, "ethertype", ["absent"]);
            (f.ethertype, f.ethertype_off) = (None, None);
        } else if let Some(n) = s.int(ctx, "ethertype", 0x0600..=0xffff) {
            f.ethertype = Some(n.v as u16);
        }
    }
    f.vlan = s.get(ctx, "vlan", &BOOL).map_or(f.vlan, |v| v.v);
    f.trust = super::port::trust_list(ctx, s, "prio_source").unwrap_or(f.trust);
    s.explain_list(ctx, "prio_source", f.trust.iter().map(|trust| trust.word()));
    f.ecn = s.get(ctx, "ecn", &EcnMode::KIND).map_or(f.ecn, |v| v.v);
    f.learning = s.get(ctx, "learning", &BOOL).map_or(f.learning, |v| v.v);
    Some(f)
}

/// A field as `{ off = 48, len = 8 }` or `[48, 8]`.
const FIELD: Kind<Field> = Kind {
    parse: |v| {
        let help = "write { off = 48, len = 8 }, in bits from the first wire bit";
        let (off, len) = match v {
            DeValue::Table(t) if t.len() == 2 => (t.get("off"), t.get("len")),
            DeValue::Array(a) if a.len() == 2 => (a.first(), a.get(1)),
            _ => (None, None),
        };
        let (Some(off), Some(len)) = (off, len) else {
            return Err(Bad::new("a field has an `off` and a `len`, and nothing else", help));
        };
        let (off, len) = (integer(off.get_ref(), help)?, integer(len.get_ref(), help)?);
        if off > 511 || !(1..=48).contains(&len) {
            let message = format!("a field of {len} bits at bit {off} is outside 1 to 48 bits at 0 to 511");
            return Err(Bad::new(message, help));
        }
        Ok(Field::new(off as u16, len as u16))
    },
    show: |f| format!("bits {} to {}", f.off, f.end() - 1),
};

/// Where the fields of a format stand: at their key if it is written, else at the format's name.
struct FieldsAt<'s, 'a> {
    section: Option<&'s Section<'a>>,
    name: Span,
}

impl FieldsAt<'_, '_> {
    fn of(&self, ctx: &Ctx<'_>, key: &str) -> Span {
        self.section.and_then(|s| s.raw(ctx, key)).map_or(self.name, |r| r.span)
    }
}

fn check(ctx: &mut Ctx<'_>, f: &FormatConfig, at: &FieldsAt<'_, '_>) {
    let bits = f.header_len * 8;
    let fields = f.fields();
    for (name, field) in &fields {
        if field.end() > bits {
            let message = format!(
                "`{name}` of format `{}` ends at bit {}, the header of {} bytes at bit {bits}",
                f.name,
                field.end(),
                f.header_len
            );
            let at = at.of(ctx, name);
            ctx.error(at, "format.field", message, "move the field or raise header_len");
        }
    }
    for pair in fields.windows(2) {
        let [(a, one), (b, two)] = pair else { continue };
        if one.end() > two.off {
            let message =
                format!("`{a}` ends at bit {}, `{b}` begins at bit {}: they overlap", one.end(), two.off);
            let at = at.of(ctx, b);
            ctx.error(at, "format.overlap", message, format!("move or shorten `{a}` or `{b}`"));
        }
    }
    for (name, key, whole) in [("dst", f.key_dst, f.dst), ("src", f.key_src, f.src)] {
        if key.off < whole.off || key.end() > whole.end() {
            let message = format!(
                "fdb_key.{name} covers bits {} to {}, the field bits {} to {}",
                key.off,
                key.end(),
                whole.off,
                whole.end()
            );
            let at = at.of(ctx, "fdb_key");
            ctx.error(at, "format.key", message, "keep the key inside its address field");
        }
    }
    if f.key_dst.len != f.key_src.len {
        let message = format!(
            "the key has {} bits in dst and {} in src: nothing learnt could be found",
            f.key_dst.len, f.key_src.len
        );
        let at = at.of(ctx, "fdb_key");
        ctx.error(at, "format.key", message, "give both the same `len` with fdb_key");
    }
    if f.tc.is_some_and(|tc| tc.len != 8 || tc.off % 8 != 0) {
        let at = at.of(ctx, "tc");
        ctx.error(
            at,
            "format.tc",
            "`tc` is an octet: 8 bits on a byte boundary",
            "use { off = 48, len = 8 }",
        );
    }
    if f.ethertype_off.is_some_and(|off| off % 8 != 0) {
        let at = at.of(ctx, "ethertype_off");
        ctx.error(at, "format.ethertype", "the EtherType starts on a byte boundary", "use a multiple of 8");
    }
    if f.ethertype_off.is_none() && f.vlan {
        let at = at.of(ctx, "vlan");
        ctx.error(at, "format.vlan", "without EtherType no VLAN tag can be told apart", "set vlan = false");
    }
    if f.tc.is_none() && (f.ecn == EcnMode::Tc || f.trust.contains(&Trust::Tc)) {
        let at = at.of(ctx, "tc");
        ctx.error(
            at,
            "format.tc",
            "the format has no `tc` but marks or trusts it",
            "add tc = { off, len = 8 }",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_formats_pass_their_own_check() {
        let mut ctx = Ctx::new("t", "");
        for format in built_in() {
            check(&mut ctx, &format, &FieldsAt { section: None, name: Span::default() });
        }
        assert!(ctx.found.is_empty(), "{:?}", ctx.found);
    }
}
