/**
 * The access to a cluster: a kubeconfig file, or the service account of the pod that Berth runs in. Token files are
 * read again regularly, since Kubernetes replaces them every hour. Programs that print credentials (`exec`) are not
 * run: on a server they would run with all its rights.
 */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { parse as parseYaml } from 'yaml'
import { z } from 'zod'
import { issueText } from '../../contract/issue-text.ts'

export interface ClusterAccess {
  /** The URL of the API server, without a slash at the end. */
  readonly server: string
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string; readonly servername?: string }
  /** undefined: the client certificate is enough. `fresh`: a token was just rejected. */
  token(fresh?: 'fresh'): Promise<string | undefined>
}

const MAX_TOKEN_AGE_MS = 10_000
const SERVICE_ACCOUNT_DIR = '/var/run/secrets/kubernetes.io/serviceaccount'
/** A small file with many aliases can become huge. */
const MAX_ALIASES = 100

const base64 = z.string().transform((text) => Buffer.from(text, 'base64').toString('utf8'))

const clusterEntry = z.object({
  name: z.string(),
  cluster: z.object({
    server: z.url({ protocol: /^https$/, error: 'must be an https:// URL' }),
    'certificate-authority': z.string().optional(),
    'certificate-authority-data': base64.optional(),
    'tls-server-name': z.string().optional(),
    'insecure-skip-tls-verify': z.boolean().optional(),
    'proxy-url': z.string().optional(),
  }),
})
const userEntry = z.object({
  name: z.string(),
  user: z.looseObject({
    token: z.string().optional(),
    tokenFile: z.string().optional(),
    'client-certificate': z.string().optional(),
    'client-certificate-data': base64.optional(),
    'client-key': z.string().optional(),
    'client-key-data': base64.optional(),
  }),
})
const contextEntry = z.object({ name: z.string(), context: z.object({ cluster: z.string(), user: z.string() }) })
const kubeconfig = z.object({
  'current-context': z.string().optional(),
  clusters: z.array(z.unknown()).default([]),
  users: z.array(z.unknown()).default([]),
  contexts: z.array(z.unknown()).default([]),
})

/** JSON is YAML too. Throws an error with a readable sentence. */
export function parseYamlText(text: string): unknown {
  return parseYaml(text, { maxAliasCount: MAX_ALIASES })
}

/** Throws an error that names the fault but no secret. `context`: the default is the file's current context. */
export async function readKubeconfig(file: string, context?: string): Promise<ClusterAccess> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new Error(`${file} cannot be read (${codeOf(error)})`)
  })
  const read = kubeconfig.safeParse(parseOrThrow(file, text), { error: issueText })
  if (!read.success) throw new Error(`${file} is not a kubeconfig: ${read.error.issues[0]?.message ?? ''}`)
  const name = context ?? read.data['current-context']
  if (name === undefined || name === '') throw new Error(`${file} has no current context; name one as \`context\``)
  const chosen = entryOf(file, 'context', read.data.contexts, name, contextEntry).context
  const { cluster } = entryOf(file, 'cluster', read.data.clusters, chosen.cluster, clusterEntry)
  const { user } = entryOf(file, 'user', read.data.users, chosen.user, userEntry)
  const unsupported = ['exec', 'auth-provider', 'username', 'as'].find((field) => user[field] !== undefined)
  if (unsupported !== undefined) {
    throw new Error(`${file}: user ${chosen.user}: \`${unsupported}\` is not supported; use a token or a certificate`)
  }
  if (cluster['insecure-skip-tls-verify'] === true) {
    throw new Error(`${file}: cluster ${chosen.cluster}: \`insecure-skip-tls-verify\` is not supported; name its CA`)
  }
  if (cluster['proxy-url'] !== undefined) {
    throw new Error(`${file}: cluster ${chosen.cluster}: \`proxy-url\` is not supported`)
  }
  const part = async (data: string | undefined, from: string | undefined): Promise<string | undefined> =>
    data ?? (from === undefined ? undefined : readPart(path.resolve(path.dirname(file), from)))
  const ca = await part(cluster['certificate-authority-data'], cluster['certificate-authority'])
  const cert = await part(user['client-certificate-data'], user['client-certificate'])
  const key = await part(user['client-key-data'], user['client-key'])
  const { token, tokenFile } = user
  if (token === undefined && tokenFile === undefined && (cert === undefined || key === undefined)) {
    throw new Error(`${file}: user ${chosen.user} has neither a token nor a client certificate`)
  }
  return {
    server: cluster.server.replace(/\/+$/, ''),
    tls: {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      ...(cluster['tls-server-name'] === undefined ? {} : { servername: cluster['tls-server-name'] }),
    },
    token: tokenFile === undefined ? async () => token : tokenReader(path.resolve(path.dirname(file), tokenFile)),
  }
}

/** Reads the service account that Kubernetes gives to the pod of this program. */
export async function readServiceAccount(
  server: string | undefined,
  folder = SERVICE_ACCOUNT_DIR,
): Promise<ClusterAccess> {
  if (server === undefined) throw new Error('this server does not run in a cluster; name a `kubeconfig`')
  return {
    server,
    tls: { ca: await readPart(path.join(folder, 'ca.crt')) },
    token: tokenReader(path.join(folder, 'token')),
  }
}

/** Reads the file at most every few seconds, unless its token was rejected. */
function tokenReader(file: string): ClusterAccess['token'] {
  let cached: { readonly token: string; readonly atMs: number } | undefined
  return async (fresh) => {
    const now = performance.now()
    if (cached === undefined || fresh === 'fresh' || now - cached.atMs > MAX_TOKEN_AGE_MS) {
      cached = { token: (await readPart(file)).trim(), atMs: now }
    }
    return cached.token
  }
}

async function readPart(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: unknown) => {
    throw new Error(`${file} cannot be read (${codeOf(error)})`)
  })
}

function parseOrThrow(file: string, text: string): unknown {
  try {
    return parseYamlText(text)
  } catch {
    // The message of the parser quotes the file, which contains secrets.
    throw new Error(`${file} is neither YAML nor JSON`)
  }
}

function entryOf<T>(file: string, noun: string, entries: readonly unknown[], name: string, schema: z.ZodType<T>): T {
  const entry = entries.find((one) => typeof one === 'object' && one !== null && 'name' in one && one.name === name)
  if (entry === undefined) throw new Error(`${file} has no ${noun} named ${name}`)
  const read = schema.safeParse(entry, { error: issueText })
  if (read.success) return read.data
  const [issue] = read.error.issues
  throw new Error(`${file}: ${noun} ${name}: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`)
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
}
