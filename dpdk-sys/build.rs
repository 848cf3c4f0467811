//! Finds DPDK, writes the bindings, compiles the out-of-line copies of inline functions.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Functions bound besides the shim's own `weir_*`.
const FUNCTIONS: &[&str] = &[
    "rte_eal_(init|cleanup|has_hugepages|remote_launch|wait_lcore|get_runtime_dir)",
    "rte_(strerror|version|log_set_global_level|get_tsc_hz|rdtsc)",
    "rte_(get_main_lcore|lcore_is_enabled)",
    "rte_pdump_(init|uninit)",
    "rte_mempool_(avail_count|free)",
    "rte_pktmbuf_(alloc|alloc_bulk|free|free_bulk|copy|chain|linearize)",
    "rte_ring_(free|count)",
    "rte_eth_(from_rings|rx_burst|tx_burst|rx_queue_count|promiscuous_enable)",
    "rte_eth_xstats_(get|get_names)",
    "rte_telemetry_register_cmd",
    "rte_tel_data_(alloc|string|start_array|start_dict|add_array_string|add_dict_string|add_dict_container)",
    "rte_eth_dev_(start|stop|close|get_mtu|set_mtu|set_link_up|set_link_down)",
];

/// Reached by pointer only; their fields are DPDK's business.
const OPAQUE: &[&str] = &["rte_mbuf", "rte_mempool", "rte_ring", "rte_device"];

fn main() {
    println!("cargo:rerun-if-changed=shim/shim.h");
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let dpdk = find_dpdk();
    write_bindings(&out, &dpdk);
    compile_wrappers(&out, &dpdk);
}

/// Include paths and compiler flags of the installed DPDK, links of its libraries printed for cargo.
struct Dpdk {
    cflags: Vec<String>,
    include: Option<PathBuf>,
}

fn find_dpdk() -> Dpdk {
    let tool = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    if Command::new(&tool).arg("--version").output().is_err() {
        fail("pkg-config is missing", "apt-get install pkg-config");
    }
    let found =
        pkg_config::Config::new().range_version("22.11".."26").print_system_libs(false).probe("libdpdk");
    let library = match found {
        Ok(library) => library,
        Err(e) => {
            eprintln!("{e}");
            fail(
                "pkg-config finds no libdpdk of a version from 22.11 up to, not including, 26",
                "apt-get install libdpdk-dev (or set PKG_CONFIG_PATH to the pkgconfig folder of your own build)",
            )
        }
    };
    // Not part of `pkg-config --libs`: the ring driver's own function makes ports out of rings.
    println!("cargo:rustc-link-lib=rte_net_ring");
    let cflags = match Command::new(&tool).args(["--cflags", "libdpdk"]).output() {
        Ok(o) if o.status.success() => {
            String::from_utf8_lossy(&o.stdout).split_whitespace().map(String::from).collect()
        }
        _ => fail("pkg-config --cflags libdpdk fails", "run it by hand to see why"),
    };
    let include = library.include_paths.iter().find(|p| p.join("rte_eal.h").exists()).cloned();
    Dpdk { cflags, include }
}

fn write_bindings(out: &Path, dpdk: &Dpdk) {
    let mut builder = bindgen::builder()
        .header("shim/shim.h")
        .clang_args(&dpdk.cflags)
        .allowlist_function("weir_.*")
        .allowlist_type("weir_.*")
        .allowlist_type("rte_eth_(xstat|xstat_name)")
        .allowlist_var("WEIR_.*")
        .default_enum_style(bindgen::EnumVariation::ModuleConsts)
        .prepend_enum_name(false)
        .derive_default(true)
        .layout_tests(true)
        .generate_comments(false)
        .use_core()
        .wrap_static_fns(true)
        .wrap_static_fns_path(out.join("wrappers.c"));
    for f in FUNCTIONS {
        builder = builder.allowlist_function(f);
    }
    for t in OPAQUE {
        builder = builder.opaque_type(t);
    }
    // libclang is loaded at run time; where it is absent the loader panics.
    let bindings = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.generate()));
    match bindings {
        Ok(Ok(b)) => b.write_to_file(out.join("bindings.rs")).expect("OUT_DIR is writable"),
        Ok(Err(e)) => fail(
            &format!("the DPDK headers cannot be read: {e}"),
            "apt-get install libdpdk-dev clang libclang-dev",
        ),
        Err(_) => {
            fail("libclang cannot be loaded", "apt-get install clang libclang-dev (or set LIBCLANG_PATH)")
        }
    }
}

/// The flags of pkg-config are passed on whole: DPDK's inlines need its `-march`.
fn compile_wrappers(out: &Path, dpdk: &Dpdk) {
    let mut build = cc::Build::new();
    build.file(out.join("wrappers.c")).include(env!("CARGO_MANIFEST_DIR")).opt_level(3).warnings(false);
    if let Some(include) = &dpdk.include {
        build.include(include);
    }
    for flag in &dpdk.cflags {
        build.flag(flag);
    }
    if let Err(e) = build.try_compile("weir_dpdk_wrappers") {
        fail(&format!("the C shim does not compile: {e}"), "apt-get install gcc libc6-dev libdpdk-dev");
    }
}

fn fail(what: &str, cure: &str) -> ! {
    eprintln!(
        "\nweir-dpdk-sys: {what}.\n  Try: {cure}\n  Without DPDK: cargo test -p weir-dataplane -p weir-config \
         -p weir-endpoint -p weir-sim -p weir-mgmt\n"
    );
    exit(1)
}
