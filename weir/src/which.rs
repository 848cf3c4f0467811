//! Which of the switches that run here a command is about.

use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use weir_mgmt::{client, server};

/// One running switch. Without options it is the only one there is.
#[derive(Debug, Default, Args)]
pub struct Which {
    /// Name of the switch (`[switch] name`), where several run here; NAME-PID of a later one of the same name.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Socket of the switch, where it is not in a run-time folder.
    #[arg(long, value_name = "PATH", conflicts_with = "name")]
    pub socket: Option<PathBuf>,
}

impl Which {
    /// Somebody has said which.
    pub fn is_said(&self) -> bool {
        self.name.is_some() || self.socket.is_some()
    }

    /// Its socket.
    ///
    /// # Errors
    /// No such switch answers, or several do and none is named.
    pub fn socket(&self) -> Result<PathBuf> {
        Ok(match &self.socket {
            Some(path) => path.clone(),
            None => client::find(&server::folders(), self.name.as_deref())?,
        })
    }
}
