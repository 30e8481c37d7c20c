/** Orders of marketplace instances over HTTP. */
import { failField, ok, type Failure } from '../../contract/result.ts'
import { createOnce } from '../../app/idempotency.ts'
import { createCheapestInstance, createInstance } from '../../app/order/marketplace.ts'
import type { InstanceOrder } from '../../domain/order.ts'
import { parseSshPublicKey } from '../../domain/ssh-key.ts'
import type { Rental } from '../../store/rental/rental.ts'
import type { Handlers } from '../http/handler.ts'

export const marketplaceOrderHandlers = {
  createInstance: async (app, { actor, body, operation, idempotencyKey }) => {
    const idempotency = { key: idempotencyKey, operation, request: body }
    const order: InstanceOrder = {
      clusterName: body.cluster_name,
      nodeName: body.node_name,
      ...body,
      gpuCount: typeof body.gpu_count === 'number' ? body.gpu_count : Number.parseInt(body.gpu_count, 10),
      image: body.image ?? null,
      metadata: body.metadata ?? body.userMetadata,
      autoTerminateAt: body.auto_terminate_at,
      spendingLimitUsd: body.spending_limit_usd,
      maxCostPerHourUsd: body.max_cost_per_hour_usd,
    }
    const result = await app.orderBatches?.place(actor, idempotency, order, createdOnWire)
    if (result !== undefined) return result.ok ? ok(createdOnWire(result.value)) : inWireNames(result)
    return createOnce(app, actor, idempotency, async (tx) => {
      const rental = await createInstance(app, tx, actor, order)
      return rental.ok ? ok(createdOnWire(rental.value)) : inWireNames(rental)
    })
  },

  createCheapestInstance: (app, { actor, body, operation, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const { publicKey, auth: _, ...order } = body
      const sshKey = publicKey === undefined ? undefined : parseSshPublicKey(publicKey)
      if (publicKey !== undefined && sshKey === undefined) return failField(['publicKey'], 'bad_ssh_key')
      const rental = await createCheapestInstance(app, tx, actor, {
        ...order,
        gpuCount: Number(body.gpuCount),
        image: body.image ?? null,
        metadata: body.metadata ?? body.userMetadata,
        sshKey: sshKey?.text,
      })
      return rental.ok ? ok({ ...createdOnWire(rental.value), instanceName: rental.value.name }) : rental
    }),
} satisfies Partial<Handlers>

function createdOnWire({ name }: Pick<Rental, 'name'>) {
  return { status: 'success' as const, instance_name: name, instance_id: name }
}

const wireNames: Readonly<Record<string, string>> = {
  autoTerminateAt: 'auto_terminate_at',
  spendingLimitUsd: 'spending_limit_usd',
  maxCostPerHourUsd: 'max_cost_per_hour_usd',
}

/** Translates field names of an order to those of the marketplace. */
function inWireNames(failure: Failure): Failure {
  if (failure.issues === undefined) return failure
  const issues = failure.issues.map((issue) => ({ ...issue, path: issue.path.map((part) => wireNames[part] ?? part) }))
  return { ...failure, issues }
}
