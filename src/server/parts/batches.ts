/** Opens batches: the loop that begins and ends them, and the runner of their lines on this server's idle slots. */
import type { Reconciler } from '../../reconcile/loop.ts'
import { refuseModel } from '../../gateway/dialect/chat-call.ts'
import { batchOperations } from '../../contract/batch-state.ts'
import { ok, type Result } from '../../contract/result.ts'
import type { Caller } from '../../gateway/call.ts'
import { runBatches, type BatchApp, type RefuseModel } from '../batch/batch-loop.ts'
import { BatchRunner } from '../batch/batch-runner.ts'
import type { Callers } from './callers.ts'
import type { GatewayPart } from './gateway.ts'
import type { MeterPart } from './meter.ts'
import type { Part } from './part.ts'

export interface BatchesPart extends Part {
  readonly loops: readonly Reconciler[]
  readonly runner: BatchRunner
}

export interface BatchesNeeds {
  readonly app: BatchApp
  readonly callers: Pick<Callers, 'authenticator'>
  readonly money: Pick<MeterPart, 'meter' | 'gatewayId'>
  readonly gateway: Pick<GatewayPart, 'batches'>
  /** Whether this server runs lines. */
  readonly isRunning: boolean
}

export function openBatches({ app, callers, money, gateway, isRunning }: BatchesNeeds): BatchesPart {
  const { authenticator } = callers
  const callerOf = async (keyId: string): Promise<Result<Caller>> => {
    const caller = await authenticator.authenticate({ kind: 'proven', keyId })
    return caller.ok ? ok(authenticator.callerOf(caller.value)) : caller
  }
  const { meter, gatewayId } = money
  const runner = new BatchRunner({ app, gateway: gateway.batches, meter, gatewayId, callerOf })
  if (isRunning) runner.start()
  const refuse: RefuseModel = async (batch, name) => {
    const caller = await callerOf(batch.api_key_id)
    if (!caller.ok) return { code: caller.reason, message: caller.message, param: null }
    const { gateway: served } = gateway.batches
    await served.whenKnown(name, caller.value)
    const model = served.catalog.get(name)
    const refused = refuseModel(model, name, caller.value)
    // A model that is being started will answer in time.
    if (refused !== undefined && refused.kind !== 'unavailable') return faultOf(refused.reason, refused.message)
    const isEmbedding = batchOperations[batch.endpoint] === 'createEmbedding'
    const fits = model === undefined || model.kind === 'chat' || (isEmbedding && model.kind === 'embedding')
    if (fits) return undefined
    return faultOf('wrong_model_kind', `The model ${name} (${model.kind}) cannot be used for ${batch.endpoint}`)
  }
  return { loops: [runBatches(app, refuse)], runner, close: () => runner.close() }
}

function faultOf(code: string, message: string) {
  return { code, message, param: 'body.model' }
}
