//! Groups that hear multicast messages (TYPE2 of RC Link): their addresses, and the ports of switches that lead to their members.

use super::FabricError;
use super::rclink;
use super::routes::Routes;
use super::spec::{FabricSpec, FrameType, LinkFormat, Pattern, Protocol, Workload};
use super::topology::{End, Plan};
use super::workload::{Carriage, Planned};
use std::net::Ipv4Addr;
use weir_dataplane::portset::PortSet;
use weir_dataplane::types::{Mac, PortId};
use weir_endpoint::rclink::frame::Station;

/// A group, and its ports at a switch.
pub(super) type GroupPorts = (u16, PortSet);

/// The address of a group: locally administered, from 239.255.0.0 on.
pub(super) fn station(group: u16) -> Station {
    let [high, low] = group.to_be_bytes();
    Station { mac: Mac([3, 0, 0, 0, high, low]), ip: Ipv4Addr::new(239, 255, high, low) }
}

/// Routes to a sender make a tree, as each switch has one port to it; those from it may meet again. In a ring all frames go clockwise,
/// from the sender on.
pub(super) fn trees_lead_from_senders(plan: &Plan) -> bool {
    plan.clockwise
}

/// The groups of every switch: static entries of its table, along the routes between members and the sender, so that no frame comes
/// twice. They stay as they are when links fail.
pub(super) fn trees(plan: &Plan, routes: &Routes, flows: &[Planned]) -> Vec<Vec<GroupPorts>> {
    let mut switches: Vec<Vec<GroupPorts>> = vec![Vec::new(); plan.names.len() - plan.hosts];
    let far = |node: usize, port: usize| -> End {
        let [a, b] = plan.links[plan.ports[node][port]].ends;
        if (a.node, a.port) == (node, port) { b } else { a }
    };
    let from_sender = trees_lead_from_senders(plan);
    for planned in flows {
        let Carriage::Group { number, .. } = planned.carriage else { continue };
        let (here, there) = if from_sender { (planned.from, planned.to) } else { (planned.to, planned.from) };
        let mut at = far(here, 0);
        while let Some(switch) = at.node.checked_sub(plan.hosts) {
            let groups = &mut switches[switch];
            // The ways of a group are planned one after the other.
            let is_new = groups.last().is_none_or(|(group, _)| *group != number);
            if is_new {
                groups.push((number, PortSet::EMPTY));
            }
            let Some((_, ports)) = groups.last_mut() else { break };
            ports.insert(PortId(at.port as u16));
            // What leads to the sender from here on is there.
            let goes_on = is_new || from_sender;
            let Some(port) = routes.port(switch, there, planned.path).filter(|_| goes_on) else { break };
            ports.insert(PortId(port as u16));
            at = far(at.node, port);
        }
    }
    switches
}

/// Refuses what frames without a queue pair cannot be.
///
/// # Errors
/// What is wrong with workload `w`, the `index`th, in words that follow its name; or the key and what it must be.
pub(super) fn check(spec: &FabricSpec, index: usize, w: &Workload) -> Result<(), FabricError> {
    let wrong =
        |problem: String| Err(FabricError::Workload { index: index + 1, kind: w.kind.word(), problem });
    let word = w.frames.word();
    if spec.host.protocol != Protocol::Rclink && w.frames != FrameType::Type1 {
        return wrong(
            "`type` is of RC Link frames: set protocol = \"rclink\" in [host], or take it out".into(),
        );
    }
    if w.members.is_some() && w.frames != FrameType::Type2 {
        return wrong("`members` are those of a group; set type = \"type2\", or take it out".into());
    }
    let (class, kinds): (_, &[Pattern]) = match w.frames {
        FrameType::Type1 => return Ok(()),
        FrameType::Type2 => (rclink::classes(spec).multicast, &[Pattern::Flow]),
        FrameType::Type3 => (
            rclink::classes(spec).raw,
            &[Pattern::Flow, Pattern::Incast, Pattern::Permutation, Pattern::AllToAll, Pattern::Poisson],
        ),
    };
    if !kinds.contains(&w.kind) {
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
        return wrong(format!("frames of {word} are sent by {}; take `type` out", kinds.join(", ")));
    }
    if w.frames == FrameType::Type3 && spec.host.rclink.format == LinkFormat::AfhLite {
        return wrong("format = \"afh_lite\" has no raw frames (TYPE3): use another format".into());
    }
    if w.frames == FrameType::Type2 && w.to.is_some() {
        return wrong("`to` means nothing here: a group is heard by `members`, or by all other hosts".into());
    }
    if let Some(key) = ["cc", "response"].into_iter().find(|key| spec.source.sets_in(index, key)) {
        return wrong(format!(
            "`{key}` means nothing to frames of {word}, which nobody answers; take it out"
        ));
    }
    if spec.source.sets_in(index, "priority") && w.priority != class {
        let key = format!("workload.{index}.priority");
        let must = format!("{class}, which [host.rclink] priorities has for {word}, or absent");
        return Err(FabricError::Range { what: key, got: w.priority.to_string(), must });
    }
    Ok(())
}
