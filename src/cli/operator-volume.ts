/** `berth operator volumes`: those of all accounts, newest first, with what their engine last said no to. */
import { Option, type Command } from 'commander'
import { systemClock } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { Reply } from '../client/client.ts'
import { volumeState } from '../contract/operator-volume.ts'
import { age } from '../view/time.ts'
import { count } from '../view/number.ts'
import { table, type Cell, type Style } from './screen.ts'
import type { Run } from './session.ts'
import { moreOr, parseName, parseWhole } from './supply.ts'

const SHOWN = 20

type Volume = Reply<'listAllVolumes'>['volumes'][number]

interface VolumeOptions {
  readonly failing?: true
  readonly state?: Volume['state']
  readonly account?: string
  readonly limit: number
  readonly cursor?: string
}

/** Under `berth operator`. */
export function addOperatorVolumeCommand(operator: Command, run: Run): void {
  const command = operator
    .command('volumes')
    .description('list storage volumes of all accounts and their last errors')
    .option('--failing', 'only those whose last call to the engine failed')
    .addOption(new Option('--state <state>', 'only those in this state').choices(volumeState.options))
    .option('--account <id>', 'only those of this account', parseName)
    .option('-n, --limit <count>', 'how many', parseWhole(1, limits.pageRows), SHOWN)
    .option('--cursor <cursor>', 'continue a long list')
  command.action(
    run('operator', async ({ client, screen }) => {
      const options = command.opts<VolumeOptions>()
      const { failing, state, account, limit, cursor } = options
      const page = await client.call('listAllVolumes', {
        query: {
          limit,
          ...(failing === undefined ? {} : { failing }),
          ...(state === undefined ? {} : { state }),
          ...(account === undefined ? {} : { accountId: account }),
          ...(cursor === undefined ? {} : { cursor }),
        },
      })
      screen.show(page, () => {
        if (page.volumes.length === 0) return ['No volumes match.']
        return [
          ...table(screen, columns, page.volumes.map(cells)),
          '',
          moreOr(page.nextCursor, commandOf(options), count(page.volumes.length, 'volume')),
        ]
      })
    }),
  )
}

const columns = [
  { title: 'ID', right: true },
  { title: 'LABEL', shrink: true },
  { title: 'ACCOUNT', shrink: true },
  { title: 'GB', right: true },
  { title: 'STATE' },
  { title: 'FOR' },
  { title: 'ENGINE' },
  { title: 'LAST ERROR', shrink: true },
] as const

function cells(volume: Volume): Cell[] {
  return [
    String(volume.id),
    volume.label,
    volume.accountId,
    volume.sizeGb.toLocaleString('en-US'),
    { text: volume.state, style: styles[volume.state] },
    age(volume.stateSince, systemClock.now()),
    volume.driver,
    errorOf(volume),
  ]
}

/** Its own, else that of the first attachment that has one. */
function errorOf({ lastError, attachments }: Volume): string {
  if (lastError !== null) return lastError
  const failing = attachments.find((one) => one.lastError !== null)
  return failing === undefined ? '' : `${failing.state} rental ${failing.rentalId}: ${failing.lastError}`
}

const styles = {
  creating: 'yellow',
  active: 'green',
  suspended: 'yellow',
  unknown: 'red',
  deleting: 'yellow',
  deleted: 'dim',
  failed: 'red',
} as const satisfies Record<Volume['state'], Style>

/** The command that continues the list, without its cursor. */
function commandOf({ failing, state, account, limit }: VolumeOptions): string {
  return [
    'berth operator volumes',
    ...(failing === true ? ['--failing'] : []),
    ...(state === undefined ? [] : [`--state ${state}`]),
    ...(account === undefined ? [] : [`--account ${account}`]),
    `-n ${limit}`,
  ].join(' ')
}
