/**
 * What suites need beyond Node and the packages of `npm ci`. A `x.lab.test.ts` begins with a call of `needs`, which
 * decides in which project it runs and which Debian packages the test command installs for it.
 */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

const qemu =
  process.arch === 'arm64'
    ? { command: 'qemu-system-aarch64', package: 'qemu-system-arm' }
    : { command: 'qemu-system-x86_64', package: 'qemu-system-x86' }
const network = [
  { command: 'ip', package: 'iproute2' },
  { command: 'nft', package: 'nftables' },
  { command: 'busybox', package: 'busybox-static' },
]
const ssh = [
  { command: 'ssh', package: 'openssh-client' },
  { command: 'sshd', package: 'openssh-server' },
]

interface Program {
  readonly command: string
  readonly package: string
  /** Debian has some programs in packages that need another one beside them. */
  readonly beside?: readonly string[]
}

/** In the order in which they are chosen for a suite with several needs, and run. */
export const labProjects = ['process', 'machines', 'crash', 'browser', 'kubernetes'] as const
export type LabProject = (typeof labProjects)[number]

interface NeedRow {
  readonly project: LabProject
  /** Completes "suites that need …". */
  readonly what: string
  readonly programs: readonly Program[]
}

const rows = {
  build: { project: 'process', what: 'the built programs', programs: [] },
  go: { project: 'process', what: 'Go modules', programs: [] },
  npm: { project: 'process', what: 'npm packages that are not installed', programs: [] },
  python: {
    project: 'process',
    what: 'clients in Python',
    programs: [
      { command: 'python3', package: 'python3' },
      { command: 'pip3', package: 'python3-pip' },
    ],
  },
  shells: {
    project: 'process',
    what: 'shells',
    programs: [
      { command: 'zsh', package: 'zsh' },
      { command: 'fish', package: 'fish' },
    ],
  },
  ffmpeg: { project: 'process', what: 'ffprobe', programs: [{ command: 'ffprobe', package: 'ffmpeg' }] },
  postgres: {
    project: 'process',
    what: "Debian's PostgreSQL",
    programs: [{ command: '/usr/lib/postgresql/*/bin/postgres', package: 'postgresql' }],
  },
  proxies: {
    project: 'process',
    what: 'nginx and Caddy',
    programs: [
      { command: 'nginx', package: 'nginx-light' },
      { command: 'caddy', package: 'caddy' },
      { command: 'openssl', package: 'openssl' },
    ],
  },
  sshd: { project: 'process', what: 'an SSH server', programs: ssh },
  helm: { project: 'process', what: 'Helm', programs: [{ command: 'unzip', package: 'unzip' }] },
  install: {
    project: 'machines',
    what: 'programs of the install script',
    programs: [
      { command: 'busybox', package: 'busybox-static' },
      { command: 'curl', package: 'curl' },
      { command: 'wget', package: 'wget' },
      { command: 'systemd-analyze', package: 'systemd' },
    ],
  },
  docker: {
    project: 'machines',
    what: 'Docker',
    programs: [
      { command: 'dockerd', package: 'docker.io' },
      { command: 'docker-registry', package: 'docker-registry' },
      ...network,
      ...ssh,
    ],
  },
  qemu: {
    project: 'machines',
    what: 'QEMU',
    programs: [
      qemu,
      { command: 'qemu-img', package: 'qemu-utils' },
      { command: 'genisoimage', package: 'genisoimage' },
      { command: 'cpio', package: 'cpio' },
      { command: 'modprobe', package: 'kmod' },
      { command: 'dropbear', package: 'dropbear-bin' },
      ...network,
      ...ssh,
    ],
  },
  metal: {
    project: 'machines',
    what: 'bare-metal hosts in namespaces',
    programs: [...network, ...ssh, { command: 'mke2fs', package: 'e2fsprogs' }],
  },
  nfs: {
    project: 'machines',
    what: 'an NFS server',
    programs: [
      { command: 'mke2fs', package: 'e2fsprogs' },
      { command: 'ganesha.nfsd', package: 'nfs-ganesha', beside: ['nfs-ganesha-vfs'] },
      { command: 'nfs-ls', package: 'libnfs-utils' },
      ...network,
    ],
  },
  kills: { project: 'crash', what: 'minutes of kills', programs: [] },
  browser: {
    project: 'browser',
    what: 'Chromium',
    programs: [{ command: 'chromium-headless-shell', package: 'chromium-headless-shell' }],
  },
  kubernetes: {
    project: 'kubernetes',
    what: 'a Kubernetes cluster',
    programs: [
      { command: 'etcd', package: 'etcd-server' },
      { command: 'containerd', package: 'containerd' },
      { command: 'runc', package: 'runc' },
      { command: '/usr/lib/cni/bridge', package: 'containernetworking-plugins' },
      ...network,
    ],
  },
} as const satisfies Record<string, NeedRow>

export type Need = keyof typeof rows
export const needTable: Readonly<Record<Need, NeedRow>> = rows

/** Declares what this suite needs. Read from its source, before it runs. */
export function needs(..._names: readonly [Need, ...Need[]]): void {}

export interface LabSuite {
  readonly file: string
  readonly needs: readonly Need[]
  readonly project: LabProject
}

/** All lab suites of the repository. Throws for one that does not begin with its needs. */
export function labSuites(root: string): LabSuite[] {
  const files = ['src', 'test'].flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
  )
  return files
    .filter((file) => file.endsWith('.lab.test.ts'))
    .map((file) => {
      const names = needsIn(file, readFileSync(path.join(root, file), 'utf8'))
      const last = Math.max(...names.map((name) => labProjects.indexOf(needTable[name].project)))
      return { file, needs: names, project: labProjects[last] ?? 'process' }
    })
}

function needsIn(file: string, source: string): Need[] {
  const [, list] = /^needs\(([^)]*)\)$/m.exec(source) ?? []
  if (list === undefined) throw new Error(`${file} does not begin with needs('…'); see test/needs.ts.`)
  return list.split(',').map((word) => {
    const name = word.trim().replaceAll("'", '')
    if (!isNeed(name)) throw new Error(`${file}: there is no need called ${name}; see test/needs.ts.`)
    return name
  })
}

function isNeed(name: string): name is Need {
  return name in needTable
}
