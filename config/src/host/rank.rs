//! From `send = "allreduce"` and `inc` to [`HostRank`].

use super::{HostRank, schema};
use crate::diag::Span;
use crate::read::{Ctx, Section, word};
use crate::units::{BOOL, Bad, Kind, show_size, wrong_type};
use toml::de::DeValue;
use weir_inc::kernels::{ByteOrder, DataType, Fold, Operator};
use weir_inc::rendezvous::Shape;

const OPERATOR: Kind<Operator> =
    Kind { parse: |v| word(v, &Operator::ALL, Operator::name), show: |o| o.name().to_owned() };
const TYPE: Kind<DataType> =
    Kind { parse: |v| word(v, &DataType::ALL, DataType::name), show: |t| t.name().to_owned() };
const BYTE_ORDER: Kind<ByteOrder> =
    Kind { parse: |v| word(v, &ByteOrder::ALL, ByteOrder::name), show: |o| o.name().to_owned() };

/// Deepest tree of engines that is read.
const LEVELS: u32 = 8;
/// Most ranks: numbers have 16 bits, the last says "all".
const RANKS: usize = 65_535;
const TREE_HELP: &str =
    "write ranks from 0 in order, a list for each engine, e.g. [0, 1] or [[0, 1], [2, 3]]";

const TREE: Kind<Shape> = Kind {
    parse: |v| {
        let tree = shape(v, LEVELS)?;
        let ranks = tree.ranks();
        let in_order = ranks.iter().enumerate().all(|(at, rank)| at == usize::from(*rank));
        match in_order && ranks.len() <= RANKS && matches!(tree, Shape::Engine(_)) {
            true => Ok(tree),
            false => Err(Bad::new(format!("the ranks of {tree:?} are {ranks:?}"), TREE_HELP)),
        }
    },
    show: |tree| serde_json::to_string(tree).unwrap_or_default(),
};

fn shape(v: &DeValue<'_>, levels: u32) -> Result<Shape, Bad> {
    match v {
        DeValue::Array(below) if below.is_empty() => {
            Err(Bad::new("an engine without anybody below", TREE_HELP))
        }
        DeValue::Array(_) if levels == 0 => {
            Err(Bad::new(format!("more than {LEVELS} levels of engines"), TREE_HELP))
        }
        DeValue::Array(below) => {
            let below = below.iter().map(|below| shape(below.get_ref(), levels - 1));
            below.collect::<Result<_, _>>().map(Shape::Engine)
        }
        DeValue::Integer(n) => {
            let rank = n.as_str().parse().ok().filter(|rank| usize::from(*rank) < RANKS);
            rank.map(Shape::Rank).ok_or_else(|| Bad::new(format!("rank {n}"), TREE_HELP))
        }
        other => Err(wrong_type(other, TREE_HELP)),
    }
}

/// The rank of a connection that sends "allreduce"; `bytes`: of its vectors, and where that is said.
pub(super) fn read(ctx: &mut Ctx<'_>, qp: &Section<'_>, (bytes, at): (u32, Span)) -> Option<HostRank> {
    for key in ["receive", "verify", "expect"] {
        if let Some(raw) = qp.raw(ctx, key) {
            let message =
                format!("`{key}` means nothing to a rank: each contribution has its sum, and is checked");
            ctx.error(raw.span, "qp.rank", message, "remove it");
        }
    }
    let s = qp.table(ctx, "inc", &schema::QP_INC);
    let [write, write_results] =
        ["write", "write_results"].map(|key| s.get(ctx, key, &BOOL).is_some_and(|set| set.v));
    let memories = [
        ("remote_address", write, "write"),
        ("remote_key", write, "write"),
        ("memory_address", write_results, "write_results"),
        ("memory_key", write_results, "write_results"),
    ];
    for (key, used, by) in memories {
        if !used && let Some(raw) = qp.raw(ctx, key) {
            let message = format!("`{key}` is of memory that is written to, and inc.{by} is false");
            ctx.error(raw.span, "qp.rank", message, format!("add inc.{by} = true, or remove it"));
        }
    }
    let operator = s.or(ctx, "operator", &OPERATOR, Operator::Sum, "the usual one");
    let data_type = s.or(ctx, "type", &TYPE, DataType::F32, "that of most gradients").v;
    let order = s.or(ctx, "byte_order", &BYTE_ORDER, ByteOrder::Little, "that of most hosts").v;
    let fold = Fold::new(operator.v, data_type, order);
    if fold.is_none() {
        let message = format!("`{}` of {} elements", operator.v.name(), data_type.name());
        ctx.error(operator.span, "qp.rank", message, "bits are combined of u32, i32 and i64");
    }
    if !(bytes as usize).is_multiple_of(data_type.bytes()) {
        let size = data_type.bytes();
        let message =
            format!("{} are not a whole number of elements of {size} bytes", show_size(bytes.into()));
        ctx.error(at, "qp.rank", message, format!("use a multiple of {size} bytes"));
    }
    let tree = s.need(ctx, "tree", &TREE);
    let rank = s.need(ctx, "rank", &crate::units::COUNT);
    let (tree, rank) = (tree?, rank?);
    let ranks = tree.v.ranks().len();
    match u16::try_from(rank.v).ok().filter(|rank| usize::from(*rank) < ranks) {
        Some(rank) => Some(HostRank { fold: fold?, rank, tree: tree.v, write, write_results }),
        None => {
            let message = format!("rank {}, but the tree has {ranks}", rank.v);
            ctx.error(rank.span, "qp.rank", message, format!("use 0 to {}", ranks - 1));
            None
        }
    }
}
