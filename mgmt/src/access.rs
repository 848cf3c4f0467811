//! Who may ask for what: roles, and the tokens that give them. Which role an endpoint takes is said in the list of them ([`crate::api`]).

use crate::token::Token;
use std::path::{Path, PathBuf};

/// What somebody may do. Each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Fetch documents without data.
    Anybody,
    /// Look at the switch.
    Read,
    /// Have work done that changes no configuration: look into frames, which slows the worker they come to; begin and end
    /// jobs of in-network aggregation.
    Operate,
    /// Change the configuration.
    Admin,
}

impl Role {
    /// Those that a token gives, the lowest first.
    pub const WITH_TOKEN: [Self; 3] = [Self::Read, Self::Operate, Self::Admin];

    /// As the documents call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Anybody => "anybody",
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    /// The configuration key of the file with the token of this role.
    pub fn key(self) -> &'static str {
        match self {
            Self::Anybody | Self::Read => "mgmt.token_file",
            Self::Operate => "mgmt.operate_token_file",
            Self::Admin => "mgmt.admin_token_file",
        }
    }
}

/// What clients over TCP present, role by role; `None`: nobody has that role over TCP, but for reading, for which
/// nothing is then asked.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// For [`Role::Read`].
    pub read: Option<Token>,
    /// For [`Role::Operate`].
    pub operate: Option<Token>,
    /// For [`Role::Admin`].
    pub admin: Option<Token>,
}

impl Tokens {
    /// The token of a role.
    pub fn of(&self, role: Role) -> Option<&Token> {
        self.by_role().into_iter().find_map(|(of, token)| token.filter(|_| of == role))
    }

    /// Gives a role that has a token this one.
    pub(crate) fn set(&mut self, role: Role, token: Token) {
        match role {
            Role::Anybody => {}
            Role::Read => self.read = Some(token),
            Role::Operate => self.operate = Some(token),
            Role::Admin => self.admin = Some(token),
        }
    }

    fn by_role(&self) -> [(Role, Option<&Token>); 3] {
        [
            (Role::Admin, self.admin.as_ref()),
            (Role::Operate, self.operate.as_ref()),
            (Role::Read, self.read.as_ref()),
        ]
    }

    /// The role of whoever presents this; `None`: it is no token here.
    pub fn role(&self, presented: Option<&str>) -> Option<Role> {
        let fits = |(role, token): (Role, Option<&Token>)| token?.fits(presented).then_some(role);
        self.by_role().into_iter().find_map(fits)
    }

    /// Pairs of roles, the lower one first, that one and the same token gives.
    pub fn alike(&self) -> Vec<(Role, Role)> {
        let all = self.by_role();
        let mut found = Vec::new();
        for (at, (high, token)) in all.iter().enumerate() {
            for (low, other) in &all[at + 1..] {
                if let (Some(token), Some(other)) = (token, other)
                    && token.is(other)
                {
                    found.push((*low, *high));
                }
            }
        }
        found
    }

    /// Somebody can have this role, or a higher one.
    pub fn grant(&self, role: Role) -> bool {
        self.by_role().iter().any(|(of, token)| *of >= role && token.is_some())
    }
}

/// What is wrong with the token of the role `high`, where that of `low` is the same.
pub fn same_token(low: Role, high: Role) -> String {
    format!("the same token as {}, so whoever has that one is let in as {}", low.key(), high.word())
}

/// What is wrong with the token of a lower role that is that of `high`.
pub fn token_of_higher(high: Role) -> String {
    format!("the same token as {}, so whoever has this one would be let in as {}", high.key(), high.word())
}

/// Where the tokens of roles are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFiles {
    /// For [`Role::Read`].
    pub read: Option<PathBuf>,
    /// For [`Role::Operate`].
    pub operate: Option<PathBuf>,
    /// For [`Role::Admin`].
    pub admin: Option<PathBuf>,
}

impl TokenFiles {
    /// The file of each role that a token gives, the lowest first.
    pub fn by_role(&self) -> [(Role, Option<&Path>); 3] {
        [
            (Role::Read, self.read.as_deref()),
            (Role::Operate, self.operate.as_deref()),
            (Role::Admin, self.admin.as_deref()),
        ]
    }

    /// The tokens in them, and of which roles the file cannot be used, and why.
    pub fn read(&self) -> (Tokens, Vec<(Role, String)>) {
        let (mut tokens, mut refused) = (Tokens::default(), Vec::new());
        for (role, path) in self.by_role() {
            match path.map(Token::read) {
                None => {}
                Some(Ok(token)) => tokens.set(role, token),
                Some(Err(why)) => refused.push((role, why)),
            }
        }
        (tokens, refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_its_role_and_the_highest_where_several_are_one() {
        let token = |text: &str| Some(Token::new(text));
        let tokens = Tokens { read: token("rr"), operate: token("oo"), admin: token("aa") };
        let roles = ["rr", "oo", "aa", "xx"].map(|presented| tokens.role(Some(presented)));
        assert_eq!(roles, [Some(Role::Read), Some(Role::Operate), Some(Role::Admin), None]);
        let one = Tokens { read: token("aa"), admin: token("aa"), operate: None };
        assert_eq!(one.role(Some("aa")), Some(Role::Admin));
        assert!(one.grant(Role::Operate), "an admin may operate");
        assert_eq!((one.alike(), tokens.alike()), (vec![(Role::Read, Role::Admin)], vec![]));
        assert_eq!(Tokens::default().role(Some("")), None);
        assert!(!Tokens::default().grant(Role::Read));
    }
}
