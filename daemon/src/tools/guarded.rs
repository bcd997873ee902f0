//! Paths that ask even inside the workspace.
//!
//! Two lists: what may make somebody run something later (hooks, profiles, editor tasks) asks
//! before it is written, and what holds secrets asks before it is read as well. The lists match
//! anywhere and whatever the case, so that no root and no file system that folds case is a way
//! around them.
//!
//! Receives resolved paths from `path` and the walking tools; hands them a yes or no.

use std::path::Path;
use std::sync::LazyLock;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::permission::PathAccess;

/// What runs later, or decides what runs.
const WRITING_ASKS: &[&str] = &[
    "**/.git",
    "**/.git/**",
    "**/.agentd",
    "**/.agentd/**",
    "**/.envrc",
    "**/.vscode/{tasks,settings,launch}.json",
    "**/.{bashrc,bash_profile,bash_login,bash_logout,bash_aliases,profile}",
    "**/.{zshrc,zshenv,zprofile,zlogin,zlogout,kshrc,cshrc,tcshrc,login}",
    "**/.config/fish/**",
    "**/.config/{systemd,autostart}/**",
];

/// Keys, logins and whatever else is nobody's business.
const READING_ASKS: &[&str] = &[
    "**/.env",
    "**/.env.*",
    "**/.{ssh,aws,gnupg,azure,kube,password-store}",
    "**/.{ssh,aws,gnupg,azure,kube,password-store}/**",
    "**/.config/{gcloud,gh,op,rclone}/**",
    "**/.config/containers/auth.json",
    "**/.docker/config.json",
    "**/.cargo/credentials*",
    "**/.m2/settings*.xml",
    "**/.gradle/gradle.properties",
    "**/.terraform.d/credentials.tfrc.json",
    "**/.{npmrc,pypirc,netrc,pgpass,my.cnf,git-credentials,vault-token,htpasswd,terraformrc}",
    "**/_netrc",
    "**/id_{rsa,dsa,ecdsa,ed25519,ecdsa_sk,ed25519_sk}",
    "**/*.{pem,key,p12,pfx,jks,keystore,kdbx,ppk}",
    "/etc/{shadow,gshadow}*",
];

/// Of [`READING_ASKS`], what is there to be read.
const READING_DOES_NOT: &[&str] = &["**/.env.{example,sample,template,dist}"];

static WRITING: LazyLock<GlobSet> = LazyLock::new(|| set(WRITING_ASKS));
static READING: LazyLock<GlobSet> = LazyLock::new(|| set(READING_ASKS));
static HARMLESS: LazyLock<GlobSet> = LazyLock::new(|| set(READING_DOES_NOT));

/// Whether this access to this resolved path asks wherever the path is.
pub(crate) fn is_guarded(path: &Path, access: PathAccess) -> bool {
    let secret = READING.is_match(path) && !HARMLESS.is_match(path);
    secret || (access == PathAccess::Write && WRITING.is_match(path))
}

fn set(patterns: &[&str]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = GlobBuilder::new(pattern).literal_separator(true).case_insensitive(true).build();
        set.add(glob.expect("the patterns above are globs"));
    }
    set.build().expect("the patterns above are globs")
}
