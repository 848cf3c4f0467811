//! Closed forms, written from the papers and the scenario tables, in exact integers. `alpha = num / den`.

/// Shared bytes at which each of `n` equally loaded groups meets its Dynamic Threshold, rounded down:
/// `T = alpha * B / (1 + n * alpha)`.
pub fn fair_share(pool: u64, (num, den): (u64, u64), n: u64) -> u64 {
    num * pool / (den + n * num)
}

/// Number of the frame of `size` bytes that sends Xoff when one group with `reserved` bytes is filled alone: the
/// first that leaves `use - reserved > alpha * (B - (use - reserved))`.
pub fn xoff_frame(pool: u64, (num, den): (u64, u64), reserved: u64, size: u64) -> u64 {
    (num * pool + reserved * (den + num)) / (size * (den + num)) + 1
}

/// Whether that frame itself still found room below the threshold as it stood before the frame.
pub fn crossing_frame_is_shared(pool: u64, (num, den): (u64, u64), reserved: u64, size: u64) -> bool {
    let n = xoff_frame(pool, (num, den), reserved, size);
    let before = ((n - 1) * size).saturating_sub(reserved);
    let after = n * size - reserved;
    after <= pool && after * den <= num * (pool - before)
}

/// Numbers of the frames that send Xoff when `n` groups are filled in turn, a frame each, and each stops at its own
/// Xoff: the rule of Dynamic Threshold played through, frame by frame. A frame that does not fit the threshold as it
/// stands before it goes to headroom and takes nothing of the pool.
pub fn xoff_frames_in_turn(pool: u64, (num, den): (u64, u64), reserved: u64, size: u64, n: u64) -> Vec<u64> {
    let (mut shared, mut at) = (vec![0u64; n as usize], vec![0; n as usize]);
    for round in 1.. {
        for i in (0..n as usize).filter(|i| at[*i] == 0).collect::<Vec<_>>() {
            let free = pool - shared.iter().sum::<u64>();
            let want = (round * size).saturating_sub(reserved);
            let (growth, fits) = (want - shared[i], want * den <= num * free);
            if want > 0 && (!fits || growth > free || want * den > num * (free - growth)) {
                at[i] = round;
            }
            if fits && growth <= free {
                shared[i] = want;
            }
        }
        if !at.contains(&0) {
            break;
        }
    }
    at
}

/// Frames of `size` bytes a lone lossy queue holds: the most with `n * s <= alpha * (B - (n - 1) * s)`.
pub fn lossy_frames(pool: u64, (num, den): (u64, u64), size: u64) -> u64 {
    num * (pool + size) / (size * (den + num))
}

/// `alpha` of a `dynamic_th`.
pub fn alpha(dynamic_th: i8) -> (u64, u64) {
    match dynamic_th {
        0.. => (1 << dynamic_th, 1),
        _ => (1, 1 << -dynamic_th),
    }
}

/// Nanoseconds of `quanta` at `rate`, rounded down.
pub fn quanta_ns(quanta: u64, rate: u64) -> u64 {
    quanta * 512 * 1_000_000_000 / rate
}

/// Nanoseconds a frame of `len` bytes without FCS takes on the wire, with preamble and gap, rounded up.
pub fn wire_ns(len: usize, rate: u64) -> u64 {
    ((len.max(60) as u64 + 24) * 8 * 1_000_000_000).div_ceil(rate)
}

/// The Internet checksum of a header: zero when the stored checksum is right.
pub fn internet_checksum(header: &[u8]) -> u16 {
    let sum = header.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}
