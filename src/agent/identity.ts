/**
 * The agent's identity: an Ed25519 key that never leaves its folder, and its host id. The key is created before the
 * first join and kept, so a join whose reply was lost can be repeated with the same key.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import { z } from 'zod'
import { systemClock } from '../base/instant.ts'
import { AGENT_SCHEME, agentStatement, downloadStatement, hostName } from '../contract/agent.ts'
import { networkType } from '../contract/shared.ts'
import { AgentError } from './agent-error.ts'
import type { AgentFolder } from './folder.ts'

/** The owner's price and labels for the machine. */
const agentTerms = z.object({
  name: hostName.nullable(),
  clusterName: z.string().min(1).max(100),
  region: z.string().min(1).max(100),
  offering: z.enum(['marketplace', 'virtual-machine']),
  networkType,
  /** null: not on the marketplace; the operator sets the price. */
  priceUsdPerGpuHour: z.string().nullable(),
  /** null: real GPUs. */
  simulated: z.object({ word: z.string(), count: z.int().min(1).max(64) }).nullable(),
})
export type AgentTerms = z.output<typeof agentTerms>

const registryHost = z
  .string()
  .regex(/^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?$/)
export const MAX_ALLOWED_REGISTRIES = 100

/** How tenants are run. Passed to `agent run` once, then stored. */
export const runSettings = z.object({
  dockerSocket: z.string().min(1).optional(),
  image: z.string().min(1).optional(),
  allowLocalImages: z.boolean().optional(),
  allowRegistry: z.array(registryHost).max(MAX_ALLOWED_REGISTRIES).optional(),
  allowPrivateRegistries: z.boolean().optional(),
  allowUnfenced: z.boolean().optional(),
  registryAuth: z.string().min(1).optional(),
  pullStall: z.int().min(1).optional(),
  weightsGb: z.number().min(0).optional(),
  accel: z.enum(['kvm', 'tcg']).optional(),
  nvidiaSmi: z.string().min(1).optional(),
  /** The host's address on the network between the hosts of its cluster. */
  clusterAddress: z.ipv4().optional(),
  trustedLan: z.boolean().optional(),
})
export type RunSettings = z.output<typeof runSettings>

const membership = z.object({
  server: z.string(),
  hostId: hostName,
  installation: z.string(),
  terms: agentTerms,
  /** Free space at the time of joining: tenants' use of it does not shrink the offer. */
  storageGb: z.number().positive(),
  run: runSettings.default({}),
})
export type Membership = z.output<typeof membership>

const MEMBERSHIP_FILE = 'agent.json'
const KEY_FILE = 'key.pem'

export interface AgentKey {
  /** The raw 32 bytes, base64url. */
  readonly publicKey: string
  /** The answer to a server's challenge, base64url. */
  answer(installation: string, nonce: string): string
  /** `Authorization` for a download from the server. */
  authorize(membership: Pick<Membership, 'installation' | 'hostId'>, path: string): string
}

/** The folder's key, created on first use. */
export function openKey(folder: AgentFolder): AgentKey {
  const pem = folder.readText(KEY_FILE)
  const privateKey = pem === undefined ? makeKey(folder) : createPrivateKey(pem)
  const { x } = createPublicKey(privateKey).export({ format: 'jwk' })
  if (x === undefined) throw new AgentError(`${KEY_FILE} in ${folder.dir} is not an Ed25519 key.`)
  return {
    publicKey: x,
    answer: (installation, nonce) =>
      sign(null, Buffer.from(agentStatement(installation, nonce)), privateKey).toString('base64url'),
    authorize: ({ installation, hostId }, path) => {
      const timeMs = systemClock.now()
      const statement = downloadStatement(installation, path, timeMs)
      return `${AGENT_SCHEME} ${hostId}:${timeMs}:${sign(null, Buffer.from(statement), privateKey).toString('base64url')}`
    },
  }
}

function makeKey(folder: AgentFolder): KeyObject {
  const { privateKey } = generateKeyPairSync('ed25519')
  folder.writeText(KEY_FILE, privateKey.export({ type: 'pkcs8', format: 'pem' }) as string)
  return privateKey
}

/** undefined: not joined. */
export function readMembership(folder: AgentFolder): Membership | undefined {
  return folder.readJson(MEMBERSHIP_FILE, membership)
}

export function writeMembership(folder: AgentFolder, value: Membership): void {
  folder.writeJson(MEMBERSHIP_FILE, value)
}

/** After leaving. Deletes the key too: a host that has left cannot return with it. */
export function forgetMembership(folder: AgentFolder): void {
  folder.remove(MEMBERSHIP_FILE)
  folder.remove(KEY_FILE)
}
