/** Templates: how a template completes an order, and how a rental becomes a template. */
import type { AfterInterruption } from '../contract/interruption.ts'
import type { RentalOrderInput } from '../contract/rental-order.ts'
import type { TemplateBody } from '../contract/template.ts'
import type { IdleRule, OrderOptions } from '../contract/workload.ts'
import type { RentalSpec, RentalKind } from './rental.ts'
import { emptyWorkload, portInputOf, secretNamesOf, workloadOf } from './workload.ts'

type OrderImage = { readonly name: string; readonly tag?: string | undefined } | null

/** Fields of the order win; `env` is merged by name. */
export function completeOrder<Order extends OrderOptions & { readonly image?: OrderImage | undefined }>(
  order: Order,
  template: TemplateBody,
): Order {
  const { env, files, command, args, onStart, userData, diskGb, shmGb, restart, ports, image } = template
  const overrides = Object.fromEntries(
    Object.entries(order).filter(([, value]) => value !== undefined && value !== null),
  )
  return {
    ...order,
    ...withoutUndefined({ files, onStart, userData, diskGb, shmGb, restart, ports, image }),
    // An order with its own entrypoint does not get the arguments of the template.
    ...(order.command === undefined ? withoutUndefined({ command, args }) : {}),
    ...overrides,
    env: { ...env, ...order.env },
  }
}

function withoutUndefined(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** Returns the first parameter that the order must set and does not. */
export function missingParam(template: TemplateBody, env: Readonly<Record<string, string>>): string | undefined {
  return template.params?.find(({ name, required }) => required && (env[name] ?? '') === '')?.name
}

/** Returns the secrets that a template adds and the order does not name itself. */
export function unnamedSecrets(order: OrderOptions, completed: OrderOptions): string[] {
  const named = new Set([...(order.secrets ?? []), ...secretNamesOf(workloadOf(order, null))])
  return secretNamesOf(workloadOf(completed, null)).filter((name) => !named.has(name))
}

/** The options of a rental as fields of an order or a template, without what was left to defaults. */
function optionsOf({ workload, image }: Pick<RentalSpec, 'workload' | 'image'>) {
  const options = { ...emptyWorkload, ...workload }
  const { env, files, command, args, onStart, userData, diskGb, shmGb, ports, restart } = options
  return {
    ...(image === null ? {} : { image: { name: image.name, ...(image.tag === null ? {} : { tag: image.tag }) } }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(files.length === 0 ? {} : { files }),
    ...(command === null ? {} : { command }),
    ...(args === null ? {} : { args }),
    ...(onStart === null ? {} : { onStart }),
    ...(userData === null ? {} : { userData }),
    ...(diskGb === null ? {} : { diskGb }),
    ...(shmGb === null ? {} : { shmGb }),
    ...(ports.length === 0
      ? {}
      : {
          ports: ports.map(portInputOf),
        }),
    ...(restart.policy === 'never' ? {} : { restart }),
  }
}

/** The columns of a rental from which its order can be derived. */
interface OrderedRental {
  readonly kind: RentalKind
  readonly label: string | null
  readonly gpu_count: number
  readonly idle: IdleRule | null
  readonly spec: RentalSpec
  readonly user_metadata: Readonly<Record<string, unknown>>
  /** null: the rental cannot be interrupted. */
  readonly after_interruption: AfterInterruption | null
}

/**
 * Returns the order for a rental like this one, and the same as a template. Times are left out, since they belong to
 * one rental.
 */
export function orderOf(rental: OrderedRental) {
  const { kind, label, gpu_count: gpuCount, idle, spec, user_metadata: metadata, after_interruption: after } = rental
  const { volumes = [], registryCredentialId = null } = spec.workload ?? {}
  const template = optionsOf(spec)
  const common = {
    ...template,
    gpuCount,
    ...(label === null ? {} : { label }),
    ...(idle === null ? {} : { idle }),
    ...(volumes.length === 0 ? {} : { volumes }),
    ...(registryCredentialId === null ? {} : { registryCredentialId }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
    ...(after === null ? {} : { interruptible: true, afterInterruption: after }),
  }
  if (kind === 'container') {
    return { order: { kind, machineId: spec.nodes[0]?.machineId ?? '', ...common } as RentalOrderInput, template }
  }
  const { region, gpuType, networkType, cudaVersion } = spec
  const place = { region, gpuType, networkType, ...(cudaVersion === null ? {} : { cudaVersion }) }
  // The spec was made from such an order, so its region and options fit its kind.
  return { order: { kind, ...place, ...common } as RentalOrderInput, template }
}
