//! The tokens that clients present, read again once their files have been written to.

use super::lock;
use super::stamp::Stamp;
use crate::access::{Role, TokenFiles, Tokens, same_token, token_of_higher};
use crate::credentials::FileReading;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// The tokens in force, and the files they came from.
#[derive(Debug)]
pub(super) struct TokenKeeper {
    files: TokenFiles,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    stamps: [Option<Stamp>; 3],
    tokens: Tokens,
    readings: BTreeMap<&'static str, FileReading>,
}

impl TokenKeeper {
    /// `tokens` hold until one of the files has been written to.
    pub fn new(tokens: Tokens, files: TokenFiles) -> Self {
        let readings = files.by_role().into_iter().filter(|(_, path)| path.is_some());
        let readings = readings.map(|(role, _)| (role.key(), FileReading::default())).collect();
        let current = Current { stamps: stamps(&files), tokens, readings };
        Self { files, current: Mutex::new(current) }
    }

    /// Those in force now.
    pub fn tokens(&self) -> Tokens {
        self.current().tokens.clone()
    }

    /// What became of the files.
    pub fn readings(&self) -> BTreeMap<&'static str, FileReading> {
        self.current().readings.clone()
    }

    /// Files that were written to are read. One that cannot be used leaves its token as it was; while two roles would have the same token
    /// all stay as they were.
    fn current(&self) -> MutexGuard<'_, Current> {
        let mut current = lock(&self.current);
        let stamps = stamps(&self.files);
        if stamps == current.stamps {
            return current;
        }
        current.stamps = stamps;
        let (read, mut refused) = self.files.read();
        let mut next = current.tokens.clone();
        for role in Role::WITH_TOKEN {
            if let Some(token) = read.of(role) {
                next.set(role, token.clone());
            }
        }
        let (alike, known) = (next.alike(), &current.tokens);
        let is_old = |role| matches!((known.of(role), next.of(role)), (Some(was), Some(is)) if was.is(is));
        // It is told of a file that was written.
        refused.extend(alike.iter().map(|(low, high)| match is_old(*high) {
            true => (*low, token_of_higher(*high)),
            false => (*high, same_token(*low, *high)),
        }));
        if !alike.is_empty() {
            next = current.tokens.clone();
        }
        let Current { tokens, readings, .. } = &mut *current;
        for role in Role::WITH_TOKEN {
            if let Some(reading) = readings.get_mut(role.key()) {
                let same = match (tokens.of(role), next.of(role)) {
                    (Some(was), Some(is)) => was.is(is),
                    (was, is) => was.is_none() && is.is_none(),
                };
                reading.renewed += u64::from(!same);
                reading.refused = refused.iter().find(|(of, _)| *of == role).map(|(_, why)| why.clone());
            }
        }
        *tokens = next;
        current
    }
}

fn stamps(files: &TokenFiles) -> [Option<Stamp>; 3] {
    files.by_role().map(|(_, path)| path.map(Stamp::of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    /// A keeper of three files.
    struct Bed {
        folder: tempfile::TempDir,
        keeper: TokenKeeper,
    }

    const FIRST: [&str; 3] = ["reader-of-old-0123", "operator-of-old-01", "admin-of-old-01234"];

    impl Bed {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = |role: Role| Some(folder.path().join(role.word()));
            let files =
                TokenFiles { read: path(Role::Read), operate: path(Role::Operate), admin: path(Role::Admin) };
            Role::WITH_TOKEN
                .into_iter()
                .zip(FIRST)
                .for_each(|(role, token)| put(&folder.path().join(role.word()), token));
            let (tokens, refused) = files.read();
            assert!(refused.is_empty(), "{refused:?}");
            Self { folder, keeper: TokenKeeper::new(tokens, files) }
        }

        fn path(&self, role: Role) -> PathBuf {
            self.folder.path().join(role.word())
        }

        fn role(&self, token: &str) -> Option<Role> {
            self.keeper.tokens().role(Some(token))
        }

        fn refused(&self, role: Role) -> Option<String> {
            self.keeper.readings()[role.key()].refused.clone()
        }

        fn renewed(&self) -> Vec<u64> {
            let readings = self.keeper.readings();
            Role::WITH_TOKEN.iter().map(|role| readings[role.key()].renewed).collect()
        }
    }

    /// Written beside it and moved there, so that no clock need tell the two apart.
    fn put(path: &std::path::Path, token: &str) {
        let new = path.with_extension("new");
        std::fs::write(&new, token).unwrap();
        std::fs::set_permissions(&new, Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    #[test]
    fn a_token_that_was_written_holds_at_once_and_the_old_one_no_longer() {
        let bed = Bed::new();
        assert_eq!(FIRST.map(|token| bed.role(token)), Role::WITH_TOKEN.map(Some));
        put(&bed.path(Role::Operate), "operator-of-new-01");
        assert_eq!((bed.role("operator-of-new-01"), bed.role(FIRST[1])), (Some(Role::Operate), None));
        assert_eq!((bed.role(FIRST[0]), bed.renewed()), (Some(Role::Read), vec![0, 1, 0]));
        put(&bed.path(Role::Operate), "operator-of-new-01");
        assert_eq!((bed.role("operator-of-new-01"), bed.renewed()), (Some(Role::Operate), vec![0, 1, 0]));
    }

    #[test]
    fn a_file_that_cannot_be_used_leaves_its_token_as_it_was() {
        let bed = Bed::new();
        let path = bed.path(Role::Admin);
        put(&path, "short");
        assert!(
            bed.role(FIRST[2]) == Some(Role::Admin)
                && bed.refused(Role::Admin).unwrap().contains("at least 16")
        );
        put(&path, "admin-of-new-01234");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(
            bed.role("admin-of-new-01234").is_none()
                && bed.refused(Role::Admin).unwrap().contains("chmod 600")
        );
        std::fs::remove_file(&path).unwrap();
        assert!(bed.role(FIRST[2]) == Some(Role::Admin) && bed.refused(Role::Admin).is_some());
        // Others are renewed meanwhile.
        put(&bed.path(Role::Read), "reader-of-new-0123");
        assert_eq!(bed.role("reader-of-new-0123"), Some(Role::Read));
        put(&path, "admin-of-new-01234");
        assert_eq!((bed.role("admin-of-new-01234"), bed.refused(Role::Admin)), (Some(Role::Admin), None));
        assert_eq!(bed.renewed(), [1, 0, 1]);
    }

    #[test]
    fn no_token_becomes_that_of_a_higher_role() {
        let bed = Bed::new();
        put(&bed.path(Role::Read), FIRST[2]);
        assert_eq!(FIRST.map(|token| bed.role(token)), Role::WITH_TOKEN.map(Some), "nothing was taken");
        assert_eq!(bed.refused(Role::Admin), None, "nobody has written that file");
        let why = bed.refused(Role::Read).unwrap();
        assert!(why.contains("the same token as mgmt.admin_token_file"), "{why}");
        // The other way round, and back again.
        put(&bed.path(Role::Read), FIRST[0]);
        put(&bed.path(Role::Admin), FIRST[0]);
        let why = bed.refused(Role::Admin).unwrap();
        assert!(why.contains("the same token as mgmt.token_file"), "{why}");
        assert_eq!(bed.refused(Role::Read), None);
        put(&bed.path(Role::Admin), FIRST[2]);
        assert_eq!(bed.refused(Role::Admin), None);
        put(&bed.path(Role::Read), FIRST[2]);
        // The old one of a role that has another now may be given to the next.
        put(&bed.path(Role::Admin), "admin-of-new-01234");
        assert_eq!(
            [FIRST[2], "admin-of-new-01234"].map(|token| bed.role(token)),
            [Role::Read, Role::Admin].map(Some)
        );
        assert_eq!(bed.refused(Role::Admin), None);
        // A file that is a pipe nobody writes to keeps nobody waiting.
        let path = bed.path(Role::Operate);
        std::fs::remove_file(&path).unwrap();
        assert!(
            std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&path).status().unwrap().success()
        );
        assert_eq!(bed.role(FIRST[1]), Some(Role::Operate));
        assert!(bed.refused(Role::Operate).unwrap().contains("not a regular file"));
    }
}
