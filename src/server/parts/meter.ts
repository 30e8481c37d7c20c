/** Opens the meter of inference requests: their money in memory, their journal on disk, and recalls by other servers. */
import { randomBytes } from 'node:crypto'
import path from 'node:path'
import type { App } from '../../app/app.ts'
import { makeTreasury, type GatewayTreasury } from '../../app/money/treasury.ts'
import { Journal } from '../../gateway/journal/journal.ts'
import { makeMeter, type Meter } from '../../gateway/money/meter.ts'
import { readOrCreateSecret } from '../data/data-folder.ts'
import { openRecalls } from '../inference/money-recall.ts'
import { recoverWorkers } from '../workers/worker-recovery.ts'
import { recentCosts, type Workers } from '../workers/workers.ts'
import { openParts, type Context, type Part } from './part.ts'

export interface MeterPart extends Part {
  readonly meter: Meter
  readonly treasury: GatewayTreasury
  readonly gatewayId: string
  readonly app: Required<Pick<App, 'recallMoney' | 'recentCosts'>>
}

export function openMeter(
  { dataDir, clock, log }: Context,
  { database, vault }: Pick<App, 'database' | 'vault'>,
  workers: Pick<Workers, 'costsOf'>,
): Promise<MeterPart> {
  return openParts(async (parts) => {
    const gatewayId = readOrCreateSecret(dataDir, 'gateway.id', () => `gw-${randomBytes(8).toString('hex')}`)
    const treasury = makeTreasury({ database, clock, gatewayId })
    const journal = await parts.add(new Journal({ dir: path.join(dataDir, 'journal'), log }))
    const meter = makeMeter({
      treasury,
      journal,
      clock,
      log,
      seal: (text) => vault.seal(text),
      recover: () => recoverWorkers(dataDir, { treasury, log }),
    })
    await meter.start()
    await parts.add(meter)
    const recalls = await parts.add(openRecalls({ app: { database, clock }, gatewayId, meter, log }))
    return {
      meter,
      treasury,
      gatewayId,
      app: { recallMoney: recalls.recall, recentCosts: (ids) => recentCosts(ids, meter, workers) },
      checks: { journal: () => journal.state() },
    }
  })
}
