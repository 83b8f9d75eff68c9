use mote_inject::{Load, Patience, Visit};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
fn main() {
    let mut a = std::env::args().skip(1);
    let lib = std::fs::read(a.next().unwrap()).unwrap();
    let over = AtomicBool::new(false);
    let patience = Patience { until: Instant::now() + Duration::from_secs(20), over: &over };
    let mut plan = vec![0u8; 64];
    plan[..8].copy_from_slice(b"moteFn1\0");
    plan[8] = 64;
    match a.next().unwrap().parse::<i32>() {
        Ok(pid) => {
            let v = Visit::open(pid).unwrap();
            println!("{:?}", v.load(Load { library: &lib, plan: &plan, place: "" }, patience));
        }
        Err(_) => {
            let words: Vec<String> = a.collect();
            let child = std::process::Command::new("sh")
                .arg("-c")
                .arg("kill -STOP $$; exec \"$@\"")
                .arg("sh")
                .args(&words)
                .spawn()
                .unwrap();
            println!("{:?}", mote_inject::at_start(child.id() as i32, &lib, || Some(plan.clone()), patience));
            let mut child = child;
            println!("{:?}", child.wait());
        }
    }
}
