// What stands where in the image, with owner and mode: the words that the image, its manifest and the bridge share.
// Data and pure text only; makes no folder.

export const IMAGE_ROOT = "/opt/holdfast";
export const IMAGE_NODE = `${IMAGE_ROOT}/node`;
export const IMAGE_BRIDGE = `${IMAGE_ROOT}/bridge.cjs`;
/** The extension that gives Pi its permissions: of this name beside the bridge, here and in a `process` sandbox. */
export const PI_EXTENSION = "pi-extension.mjs";
export const IMAGE_PI_EXTENSION = `${IMAGE_ROOT}/${PI_EXTENSION}`;
export const IMAGE_MANIFEST = `${IMAGE_ROOT}/manifest.json`;
export const IMAGE_TINI = "/usr/bin/tini";

/** The group that all slots of a sandbox share, so that they can share the workspace. */
export const SLOT_GROUP = { name: "holdfast", gid: 20_000 } as const;

/** User of a sandbox's first slot. */
export const FIRST_SLOT_UID = 20_001;

export interface ImageFolder {
  path: string;
  mode: number;
  gid: number;
  /** Why it is there. */
  purpose: string;
}

/** Owned by root, made by the base, whichever base that is. */
export const IMAGE_FOLDERS: readonly ImageFolder[] = [
  { path: "/home/slots", mode: 0o755, gid: 0, purpose: "one home a slot, made by the bridge" },
  { path: "/opt/holdfast", mode: 0o755, gid: 0, purpose: "bridge, node, CLIs, manifest" },
  { path: "/run/holdfast", mode: 0o755, gid: 0, purpose: "mount point of the link's folder" },
  { path: "/var/lib/holdfast", mode: 0o700, gid: 0, purpose: "the bridge's journal" },
  // setgid: what one slot makes belongs to the shared group.
  { path: "/workspace", mode: 0o2775, gid: SLOT_GROUP.gid, purpose: "the files that the agents work on" },
];

/**
 * A build file that makes any Debian or Ubuntu image fit as a base: missing tools from its own package sources, then
 * group and folders. The one place of the project where a build may need a network.
 */
export function foreignBaseBuildFile(): string {
  const tools = [
    "command -v git && command -v rg && command -v bash",
    `test -x ${IMAGE_TINI} && test -s /etc/ssl/certs/ca-certificates.crt`,
    "ls /usr/lib/*/libstdc++.so.6",
  ].join(" && ");
  const packages = "bash ca-certificates git libstdc++6 ripgrep tini";
  const install = `apt-get -qq update && apt-get -qq -y --no-install-recommends install ${packages}`;
  const folders = IMAGE_FOLDERS.map(
    ({ path, mode, gid }) =>
      `mkdir -p ${path} && chown 0:${gid} ${path} && chmod ${mode.toString(8)} ${path}`,
  );
  const steps = [
    `{ { ${tools}; } >/dev/null || { ${install} && rm -rf /var/lib/apt/lists/*; }; }`,
    `echo '${SLOT_GROUP.name}:x:${SLOT_GROUP.gid}:' >> /etc/group`,
    ...folders,
  ];
  return ["ARG BASE", `FROM \${BASE}`, "USER root", `RUN ${steps.join(" && \\\n    ")}`, ""].join("\n");
}
