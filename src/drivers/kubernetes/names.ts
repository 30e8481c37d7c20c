/**
 * Names in a cluster. Names derive from the objects that they stand for, so that a repeated create reuses the first
 * object.
 */
import { sha256 } from '../../base/id.ts'

export const MANAGED_LABEL = 'app.kubernetes.io/managed-by'
export const MANAGER = 'berth'
/** Selects all our pods, of every installation. */
export const OURS = `${MANAGED_LABEL}=${MANAGER}`
export const ACCOUNT_LABEL = 'berth/account'
/** Labels have at most 63 characters and no prefix match, so the tag is an annotation. */
export const TAG_ANNOTATION = 'berth/tag'
export const ORDER_ANNOTATION = 'berth/order'
export const CONTAINER = 'main'
/** Downloads the weights of a model before the program's container starts. */
export const WEIGHTS_CONTAINER = 'weights'

const MAX_LABEL_CHARS = 63
const MAX_MACHINE_CHARS = 90

export function machineIdOf(cluster: string, node: string): string {
  const id = `${cluster}-${node}`
  return id.length <= MAX_MACHINE_CHARS ? id : `${id.slice(0, MAX_MACHINE_CHARS - 17)}-${hash(node)}`
}

export function namespaceOf(prefix: string, accountId: string): string {
  const plain = accountId
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
  // Ids are case-sensitive; namespaces are not.
  return `${prefix}-${plain.slice(0, 14)}-${hash(accountId)}`
}

export function podNameOf(tag: string): string {
  return /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(tag) && tag.length <= MAX_LABEL_CHARS ? tag : `berth-${hash(tag)}`
}

/** Account ids contain characters that labels may not have. */
export function accountLabel(accountId: string): string {
  return /^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/.test(accountId) ? accountId : hash(accountId)
}

export interface PodAddress {
  readonly cluster: string
  readonly namespace: string
  readonly name: string
}

/** Returns the provider's id of a machine. */
export function externalIdOf({ cluster, namespace, name }: PodAddress): string {
  return `${cluster}/${namespace}/${name}`
}

/** undefined: the id is not ours. */
export function readExternalId(id: string): PodAddress | undefined {
  const [, cluster, namespace, name] = /^([a-z0-9-]+)\/([a-z0-9-]+)\/([a-z0-9-]+)$/.exec(id) ?? []
  return cluster === undefined || namespace === undefined || name === undefined
    ? undefined
    : { cluster, namespace, name }
}

export function podPath({ namespace, name }: Pick<PodAddress, 'namespace' | 'name'>): string {
  return `/api/v1/namespaces/${namespace}/pods/${name}`
}

function hash(text: string): string {
  return sha256(text).toString('hex').slice(0, 16)
}
