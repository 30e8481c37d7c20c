/**
 * Who this agent is: an Ed25519 key that never leaves its folder, and the host that a server knows it as. The key is
 * made before the first join and kept, so that a join whose answer was lost can be asked for again with the same key.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import { z } from 'zod'
import { agentStatement, hostName } from '../contract/agent.ts'
import { networkType } from '../contract/shared.ts'
import { AgentError } from './agent-error.ts'
import type { AgentFolder } from './folder.ts'

/** What its owner asks for the machine, and what it is shown as. */
const agentTerms = z.object({
  name: hostName.nullable(),
  clusterName: z.string().min(1).max(100),
  region: z.string().min(1).max(100),
  offering: z.enum(['marketplace', 'virtual-machine']),
  networkType,
  /** null: not on the marketplace, where the house sets the price. */
  priceUsdPerGpuHour: z.string().nullable(),
  /** null: the GPUs that are found. */
  simulated: z.object({ word: z.string(), count: z.int().min(1).max(64) }).nullable(),
})
export type AgentTerms = z.output<typeof agentTerms>

const registryHost = z
  .string()
  .regex(/^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?$/)
export const MAX_ALLOWED_REGISTRIES = 100

/** How tenants are run. Given to `agent run` once, and kept. */
export const runSettings = z.object({
  dockerSocket: z.string().min(1).optional(),
  image: z.string().min(1).optional(),
  allowLocalImages: z.boolean().optional(),
  allowRegistry: z.array(registryHost).max(MAX_ALLOWED_REGISTRIES).optional(),
  allowPrivateRegistries: z.boolean().optional(),
  allowUnfenced: z.boolean().optional(),
  registryAuth: z.string().min(1).optional(),
  pullStall: z.int().min(1).optional(),
  accel: z.enum(['kvm', 'tcg']).optional(),
  nvidiaSmi: z.string().min(1).optional(),
})
export type RunSettings = z.output<typeof runSettings>

const membership = z.object({
  server: z.string(),
  hostId: hostName,
  installation: z.string(),
  terms: agentTerms,
  /** What was free when it joined: what tenants then use does not make the machine smaller. */
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
}

/** The folder's key, made on first use. */
export function openKey(folder: AgentFolder): AgentKey {
  const kept = folder.readText(KEY_FILE)
  const privateKey = kept === undefined ? makeKey(folder) : createPrivateKey(kept)
  const { x } = createPublicKey(privateKey).export({ format: 'jwk' })
  if (x === undefined) throw new AgentError(`${KEY_FILE} in ${folder.dir} is not an Ed25519 key.`)
  return {
    publicKey: x,
    answer: (installation, nonce) =>
      sign(null, Buffer.from(agentStatement(installation, nonce)), privateKey).toString('base64url'),
  }
}

function makeKey(folder: AgentFolder): KeyObject {
  const { privateKey } = generateKeyPairSync('ed25519')
  folder.writeText(KEY_FILE, privateKey.export({ type: 'pkcs8', format: 'pem' }) as string)
  return privateKey
}

/** undefined: it has not joined. */
export function readMembership(folder: AgentFolder): Membership | undefined {
  return folder.readJson(MEMBERSHIP_FILE, membership)
}

export function writeMembership(folder: AgentFolder, value: Membership): void {
  folder.writeJson(MEMBERSHIP_FILE, value)
}

/** After leaving: the key goes too, since a host that has left does not come back under it. */
export function forgetMembership(folder: AgentFolder): void {
  folder.remove(MEMBERSHIP_FILE)
  folder.remove(KEY_FILE)
}
