/**
 * `npm test`: the checks and every test; `npm test -- <filter…>`: only the tests that match. Whatever happens, the
 * last line is `N passed, N failed` with the true counts, and the exit code is nonzero when anything failed.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { run, runTests } from './run-tests.mjs'

const qemu =
  process.arch === 'arm64'
    ? { command: 'qemu-system-aarch64', package: 'qemu-system-arm' }
    : { command: 'qemu-system-x86_64', package: 'qemu-system-x86' }
const [containers, machines, metal, storage, proxies, installing, databases, clusters] = [
  'tests of containers',
  'tests of virtual machines',
  'tests of bare metal',
  'tests of volumes',
  'tests of TLS proxies',
  'tests of installing',
  'tests with a PostgreSQL of Debian',
  'tests of Kubernetes',
]

const hasClusters = process.env['BERTH_TEST_KUBERNETES'] !== 'false'
/** What the names of its suites have in common. */
const CLUSTER_SUITES = 'kubernetes.test.ts'

const DEBIAN_POSTGRES = '/usr/lib/postgresql'
/** They run a second time, on the PostgreSQL of Debian: the schema, its upgrade, and the API with every operation. */
const DATABASE_SUITES = [
  'src/store/migrate.test.ts',
  'src/app/order-batch.test.ts',
  'test/upgrade.test.ts',
  'test/authorisation.test.ts',
  ...['budget', 'chat', 'commitment', 'interface', 'marketplace', 'money', 'virtual-machine', 'volume'].map(
    (journey) => `test/journeys/${journey}.test.ts`,
  ),
]
const canInstall = process.getuid?.() === 0 && existsSync('/etc/debian_version')

/** Programs beside Node that tests need, by Debian package. */
/** @type {ReadonlyArray<{ command: string, package: string, neededBy: string }>} */
const needs = [
  { command: 'ffprobe', package: 'ffmpeg', neededBy: 'the test of spoken answers' },
  { command: 'dockerd', package: 'docker.io', neededBy: containers },
  { command: 'docker-registry', package: 'docker-registry', neededBy: containers },
  { command: 'busybox', package: 'busybox-static', neededBy: containers },
  { command: 'ip', package: 'iproute2', neededBy: containers },
  { command: 'unzip', package: 'unzip', neededBy: 'the test of the Helm chart' },
  { command: 'ssh', package: 'openssh-client', neededBy: metal },
  { command: 'sshd', package: 'openssh-server', neededBy: metal },
  { ...qemu, neededBy: machines },
  { command: 'qemu-img', package: 'qemu-utils', neededBy: machines },
  { command: 'genisoimage', package: 'genisoimage', neededBy: machines },
  { command: 'cpio', package: 'cpio', neededBy: machines },
  { command: 'modprobe', package: 'kmod', neededBy: machines },
  { command: 'dropbear', package: 'dropbear-bin', neededBy: machines },
  { command: 'nft', package: 'nftables', neededBy: machines },
  { command: 'mke2fs', package: 'e2fsprogs', neededBy: storage },
  { command: 'ganesha.nfsd', package: 'nfs-ganesha', neededBy: storage },
  { command: 'zsh', package: 'zsh', neededBy: 'the test of completions' },
  { command: 'fish', package: 'fish', neededBy: 'the test of completions' },
  { command: 'chromium-headless-shell', package: 'chromium-headless-shell', neededBy: 'the tests of the console' },
  { command: 'nginx', package: 'nginx-light', neededBy: proxies },
  { command: 'caddy', package: 'caddy', neededBy: proxies },
  { command: 'openssl', package: 'openssl', neededBy: proxies },
  { command: 'curl', package: 'curl', neededBy: installing },
  { command: 'wget', package: 'wget', neededBy: installing },
  { command: 'systemd-analyze', package: 'systemd', neededBy: installing },
  { command: `${DEBIAN_POSTGRES}/*/bin/postgres`, package: 'postgresql', neededBy: databases },
  { command: 'nfs-ls', package: 'libnfs-utils', neededBy: storage },
  ...(hasClusters
    ? [
        { command: 'etcd', package: 'etcd-server', neededBy: clusters },
        { command: 'containerd', package: 'containerd', neededBy: clusters },
        { command: '/usr/lib/cni/bridge', package: 'containernetworking-plugins', neededBy: clusters },
      ]
    : []),
]
/** Parts of those packages that are not programs. */
const beside = new Map([['nfs-ganesha', ['nfs-ganesha-vfs']]])

const root = fileURLToPath(new URL('..', import.meta.url))

process.exitCode = await main(process.argv.slice(2))

/** @param {string[]} filters */
async function main(filters) {
  // Ctrl-C reaches the child too; it stops by itself and this process reports the result.
  process.on('SIGINT', () => {})
  const ready = installNeeds()
  if (filters.length > 0) return runTests(root, [{ filters }], { ready })
  // They take the time in which packages are installed and other tests wait.
  const building = spawn(process.execPath, ['--import', 'tsx', 'scripts/build-lab.ts'], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  // Checks use one processor at a time, and most tests wait for something: side by side both take less time.
  const check = {
    name: 'npm run check',
    program: process.env['npm_execpath'] ?? 'npm',
    args: ['run', '--silent', 'check'],
  }
  const most = { filters, env: { BERTH_TEST_KUBERNETES: 'false' } }
  const debian = { filters: DATABASE_SUITES, env: { BERTH_TEST_POSTGRES: 'debian' } }
  if (!hasClusters) process.stdout.write('BERTH_TEST_KUBERNETES=false leaves the Kubernetes suites out.\n')
  // By themselves at the end: they create networks, which disturbs browsers.
  const parts = [
    most,
    ...(canInstall || existsSync(DEBIAN_POSTGRES) ? [debian] : []),
    ...(hasClusters ? [{ filters: [CLUSTER_SUITES] }] : []),
  ]
  try {
    return await runTests(root, parts, { check, ready })
  } finally {
    building.kill()
  }
}

/** As root on Debian, installs what is missing; elsewhere, lists it, and the tests that need it are skipped. */
async function installNeeds() {
  const missing = needs.filter(({ command }) => spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0)
  if (missing.length === 0) return
  const packages = missing.flatMap((one) => [one.package, ...(beside.get(one.package) ?? [])])
  for (const one of missing) process.stdout.write(`${one.command} is missing, which ${one.neededBy} needs.\n`)
  if (!canInstall) return void process.stdout.write(`Install: ${packages.join(' ')}\n`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  await run(root, 'apt-get', ['update', '-q'], { env })
  await run(root, 'apt-get', ['install', '-qy', '--no-install-recommends', ...packages], { env })
}
