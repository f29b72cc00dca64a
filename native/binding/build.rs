fn main() {
    napi_build::setup();
    // An eighth of the addon is names of functions, which users download for nothing; HEDDLE_SYMBOLS=1 keeps them for perf.
    println!("cargo::rerun-if-env-changed=HEDDLE_SYMBOLS");
    let on_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if on_linux && std::env::var_os("HEDDLE_SYMBOLS").is_none() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-s");
    }
}
