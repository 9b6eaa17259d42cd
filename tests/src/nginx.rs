//! The distribution's nginx, to compare with.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Client, Directory, Port, eventually, packages};

/// Where Debian's packages put modules.
const MODULES: &str = "/usr/lib/nginx/modules";

/// An nginx that ends with the test.
#[derive(Debug)]
pub struct Nginx(Child);

impl Nginx {
    /// Starts nginx with this configuration, which has to keep it in the foreground. It is there once `port` can be
    /// connected to.
    ///
    /// # Panics
    ///
    /// When it is not.
    #[track_caller]
    pub fn start(program: &Path, directory: &Directory, text: &str, port: &Port) -> Nginx {
        let config = directory.write("nginx.conf", text);
        let mut line = Command::new(program);
        line.arg("-p").arg(directory.path()).arg("-c").arg(config);
        line.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let nginx = Nginx(line.spawn().expect("nginx starts"));
        eventually("nginx listens", || Client::connect(port.address()).ok());
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A master that is killed leaves its workers; one that is asked to stop does not.
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// The line that loads the module of streams; without it the test says so, loudly, and passes.
pub fn stream_module() -> Option<String> {
    let module: PathBuf = Path::new(MODULES).join("ngx_stream_module.so");
    if !module.is_file()
        && let Err(reason) = packages::install("libnginx-mod-stream")
    {
        packages::skip(&reason);
        return None;
    }
    Some(format!("load_module {};\n", module.display()))
}
