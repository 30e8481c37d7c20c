/** `berth operator hosts`, `images` and `placement`: the fleet, what virtual machines start from, why no place is found. */
import { randomUUID } from 'node:crypto'
import { Option, type Command } from 'commander'
import type { CallInput, Reply } from '../client/client.ts'
import { ApiError } from '../client/error.ts'
import { gpuType, networkType, type GpuType, type NetworkType } from '../contract/shared.ts'
import { region, type Region } from '../contract/region.ts'
import { rentalType, type RentalType } from '../contract/rental.ts'
import { count } from '../view/number.ts'
import { refusalOf } from './failure.ts'
import { withReason } from './operator-account.ts'
import { fields, table, type Cell } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'
import { hostTable, moreOr, parseName, parseWhole, tenantWords } from './supply.ts'

/** Under `berth operator`. */
export function addHostCommands(operator: Command, run: Run, shell: Shell): void {
  addHosts(operator, run, shell)
  addImages(operator, run)
  addPlacement(operator, run)
}

type NewHost = CallInput<'addHost'>['body']

function addHosts(operator: Command, run: Run, shell: Shell): void {
  const hosts = operator
    .command('hosts')
    .description('machines with an agent, and bare metal over SSH')
    .usage(GROUP_USAGE)
    .commandsGroup('Operators:')
  const list = hosts
    .command('ls', { isDefault: true })
    .description('every host, and how it is')
    .option('--cursor <cursor>', 'go on where a long list was cut')
  list.action(
    run('operator', async ({ client, screen }) => {
      const { cursor } = list.opts<{ cursor?: string }>()
      const page = await client.call('listHosts', { query: cursor === undefined ? {} : { cursor } })
      screen.show(page, () => {
        if (page.hosts.length === 0) {
          return [
            'There are no hosts.',
            'With an agent: berth supply token. Over SSH: berth operator hosts add FILE.json',
          ]
        }
        const end = count(page.hosts.length, 'host')
        return [...hostTable(screen, page.hosts), '', moreOr(page.nextCursor, 'berth operator hosts ls', end)]
      })
    }),
  )
  hosts
    .command('add')
    .description('add bare metal that is reached over SSH')
    .argument('<file>', 'JSON: one host, or { "hosts": [ … ] } as in BERTH_INVENTORY; - for standard input')
    .action(
      run('operator', async ({ client, screen }, file = '') => {
        const added: Array<Reply<'addHost'>> = []
        for (const body of readHosts(shell, file)) {
          // Each by itself: those before a bad one stay, and the same file can be given again without them.
          added.push(await withFields(client.call('addHost', { body, idempotencyKey: randomUUID() })))
        }
        screen.show({ hosts: added }, () =>
          added.map((host) => `${host.id} is ${host.state}: it is checked before it is sold.`),
        )
      }),
    )
  for (const [verb, action, description] of actions) addAction(hosts, run, verb, action, description)
}

const actions = [
  ['drain', 'drain', 'take no more tenants on it'],
  ['resume', 'resume', 'put it back on sale'],
  ['quarantine', 'quarantine', 'take it out of service; tenants run on'],
  ['release', 'release', 'out of quarantine; bare metal is cleaned and checked first'],
  ['rm', 'remove', 'take it away for good, once it is empty'],
] as const

function addAction(
  hosts: Command,
  run: Run,
  verb: string,
  action: (typeof actions)[number][1],
  description: string,
): void {
  const command = hosts
    .command(verb)
    .description(description)
    .argument('<host>', 'as berth operator hosts ls shows it', parseName)
  withReason(command).action(
    run('operator', async ({ client, screen }, id = '') => {
      const { reason } = command.opts<{ reason: string }>()
      const host = await client.call('changeHost', { params: { id }, body: { action, reason } })
      screen.show(host, () => [`${host.id} is ${host.state}${tenantWords(host.tenants)}.`])
    }),
  )
}

/** A file has many fields: what is wrong with which of them is told line by line. */
async function withFields<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    if (!(error instanceof ApiError) || error.issues.length === 0) throw error
    const lines = error.issues.map(({ path, message }) => `${path.join('.') || 'the whole'}: ${message}`)
    throw refusalOf(error, exitCodes.failed, lines)
  }
}

/** The server judges each field; here it only has to be JSON. */
function readHosts(shell: Shell, file: string): NewHost[] {
  const text = file === '-' ? shell.readInput() : shell.readFile(file)
  if (text === undefined) throw new CliError(exitCodes.usage, `${file} cannot be read.`)
  const json = parseJson(text)
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw new CliError(exitCodes.usage, `${file} does not hold a JSON object.`)
  }
  return 'hosts' in json && Array.isArray(json.hosts) ? (json.hosts as NewHost[]) : [json as NewHost]
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

interface NewImage {
  readonly arch: 'x64' | 'arm64'
  readonly source: string
  readonly sha256: string
  readonly user: string
  readonly default?: true
}

function addImages(operator: Command, run: Run): void {
  const images = operator
    .command('images')
    .description('what virtual machines start from')
    .usage(GROUP_USAGE)
    .commandsGroup('Operators:')
  images
    .command('ls', { isDefault: true })
    .description('the images')
    .action(
      run('operator', async ({ client, screen }) => {
        const answer = await client.call('listBaseImages')
        screen.show(answer, () => {
          if (answer.images.length === 0) {
            return ['There are no images: virtual machines start from the small one that their hosts build.']
          }
          return table(
            screen,
            [{ title: 'NAME' }, { title: 'ARCH' }, { title: 'USER' }, { title: 'DEFAULT' }, { title: 'SOURCE' }],
            answer.images.map((one): Cell[] => [
              one.name,
              one.arch,
              one.loginUser,
              one.isDefault ? 'yes' : '',
              one.source,
            ]),
          )
        })
      }),
    )
  const add = images
    .command('add')
    .description('name an image')
    .argument('<name>', 'how it is called', parseName)
    .addOption(new Option('--arch <arch>', 'of which machines').choices(['x64', 'arm64']).default('x64'))
    .requiredOption('--source <url>', 'https://…, or file:/… on the hosts themselves')
    .requiredOption('--sha256 <hex>', 'its checksum')
    .requiredOption('--user <name>', 'as whom people log in')
    .option('--default', 'for orders that name none')
  add.action(
    run('operator', async ({ client, screen }, name = '') => {
      const { arch, source, sha256, user, default: isDefault = false } = add.opts<NewImage>()
      const body = { name, arch, source, sha256, loginUser: user, isDefault }
      const image = await client.call('addBaseImage', { body, idempotencyKey: randomUUID() })
      screen.show(image, () => [
        `${image.name} is known now${image.isDefault ? `, and the default for ${image.arch}` : ''}.`,
      ])
    }),
  )
  images
    .command('rm')
    .description('forget an image; what has started from it runs on')
    .argument('<name>', 'as berth operator images ls shows it', parseName)
    .action(
      run('operator', async ({ client, screen }, id = '') => {
        const gone = await client.call('deleteBaseImage', { params: { id } })
        screen.show(gone, () => [`${id} is forgotten.`])
      }),
    )
}

interface Order {
  readonly kind: RentalType
  readonly region: Region
  readonly gpu: GpuType
  readonly count: number
  readonly network: NetworkType
}

const MAX_GPUS = 4_096

const priceWords = {
  found: 'is in the price book',
  disabled: 'is in the price book, switched off',
  missing: 'is not in the price book',
  other_gpu_count: 'is in the price book for other numbers of GPUs only',
} as const

function addPlacement(operator: Command, run: Run): void {
  const placement = operator
    .command('placement')
    .description('where an order would go, or why nowhere')
    .addOption(new Option('--kind <kind>', 'what is ordered').choices(rentalType.options).default('virtual-machine'))
    .addOption(new Option('--region <region>', 'where').choices(region.options).makeOptionMandatory())
    .addOption(new Option('--gpu <type>', 'which GPU').choices(gpuType.options).default('h100'))
    .option('--count <n>', 'how many GPUs', parseWhole(1, MAX_GPUS), 1)
    .addOption(new Option('--network <type>', 'which network').choices(networkType.options).default('ethernet'))
  placement.action(
    run('operator', async ({ client, screen }) => {
      const order = placement.opts<Order>()
      const report = await client.call('explainPlacement', {
        body: {
          machineType: order.kind,
          region: order.region,
          gpuType: order.gpu,
          gpuCount: order.count,
          networkType: order.network,
        },
      })
      screen.show(report, () => [
        ...fields(screen, [
          ['Order', `${order.count} ${order.gpu} with ${order.network} in ${order.region}, as ${order.kind}`],
          ['Place', report.found ? { text: 'found', style: 'green' } : { text: 'none', style: 'red' }],
          ['Price', priceWords[report.price]],
        ]),
        '',
        ...table(
          screen,
          [{ title: 'MACHINE' }, { title: 'ENGINE' }, { title: 'VERDICT' }, { title: 'WHY' }],
          [
            ...report.candidates.map((one): Cell[] => [
              one.machineId,
              one.driver,
              { text: 'fits', style: 'green' },
              `${one.gpusFree} of ${one.gpusTotal} GPUs free in ${one.clusterName}`,
            ]),
            ...report.rejected.map((one): Cell[] => [one.machineId, one.driver, one.reason, one.detail]),
          ],
        ),
        '',
        `${count(report.candidates.length, 'machine')} would do, ${report.rejectedCount} would not.`,
      ])
      return report.found ? exitCodes.ok : exitCodes.failed
    }),
  )
}
