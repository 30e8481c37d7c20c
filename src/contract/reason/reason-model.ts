/** Reasons about models, deployments and inference requests. */
import { formatUsdExactly, type NanoUsd } from '../../base/money.ts'
import {
  asGiven,
  conflict,
  forbidden,
  invalid,
  noCapacity,
  notFound,
  rateLimited,
  unavailable,
} from './reason-entry.ts'

type Model = {
  readonly model: string
}

const vendorNames = { nvidia: 'NVIDIA', amd: 'AMD' } as const
type Vendor = keyof typeof vendorNames

type RecipeOption = {
  readonly recipe: string
  readonly option: string
  readonly fault: 'missing' | 'unsupported' | 'conflict' | 'not_in_weights' | 'operator_only' | 'slash' | 'twice'
}

function secondsOf(ms: number): number {
  return Math.ceil(ms / 1_000)
}

export const modelReasons = {
  model_not_found: notFound(
    ({ model }: Model) => `The model ${JSON.stringify(model)} does not exist.`,
    'List the models to see the available names.',
  ),
  model_exists: conflict(({ model }: Model) => `The model ${model} already exists.`),
  too_many_models: forbidden(
    ({ max }: { readonly max: number }) => `There are already ${max} models.`,
    'Delete one first.',
  ),
  no_engine: invalid('Only models that run on an engine can have files.'),
  engine_mismatch: invalid(
    ({ engine, kind }: { readonly engine: string; readonly kind: string }) =>
      `The engine ${engine} only runs ${kind} models.`,
  ),
  files_missing: invalid('The model has no files.', 'Add the source of its model file.'),
  files_mismatch: invalid(({ engine }: { readonly engine: string | undefined }) =>
    engine === undefined
      ? 'All parts of a file must have the same sha256: the digest of the whole file.'
      : `The engine ${engine} includes its own files.`,
  ),
  deployment_not_found: notFound('Deployment not found.'),
  deployment_name_missing: invalid('A private deployment needs `name`, and one for everyone needs `model`.'),
  model_deployed: conflict(
    ({ model }: Model) => `The model ${model} has a managed deployment.`,
    'Change that one, or delete it first.',
  ),
  house_budget_missing: invalid('A deployment for everyone needs `hourlyBudgetUsd`: the house pays for its GPUs.'),
  replicas_min_above_max: invalid('`replicas.min` must not be above `replicas.max`.'),
  only_simulated_machines: noCapacity(
    ({ gpus }: { readonly gpus: string }) =>
      `The only free machines for ${gpus} are simulated, and simulated machines never run models.`,
    'Choose other GPUs, wait for free ones, or join a machine with "berth agent run".',
  ),
  deployment_deleting: conflict('The deployment is being deleted.'),
  hourly_budget: noCapacity(
    ({ costPerHour, left: available }: { readonly costPerHour: NanoUsd; readonly left: NanoUsd }) =>
      `Another replica costs ${formatUsdExactly(costPerHour)} per hour, but the hourly budget has only ${formatUsdExactly(available)} left.`,
    'Raise the hourly budget, or choose cheaper GPUs.',
  ),
  too_many_deployments: forbidden(
    ({ max }: { readonly max: number }) => `The model already has ${max} deployments.`,
    'Delete one first.',
  ),
  protocol_mismatch: invalid(
    ({ protocol, kinds }: { readonly protocol: string; readonly kinds: readonly string[] }) =>
      `The protocol ${protocol} only supports ${kinds.join(' or ')} models.`,
  ),

  recipe_mismatch: invalid(
    ({ recipe, kind }: { readonly recipe: string; readonly kind: string }) =>
      `The recipe ${recipe} does not serve ${kind} models.`,
  ),
  recipe_option: invalid(({ recipe, option, fault }: RecipeOption) => {
    switch (fault) {
      case 'missing':
        return `The recipe ${recipe} needs ${option === 'image' ? 'an image' : option}.`
      case 'unsupported':
        return `The recipe ${recipe} does not support ${option}.`
      case 'conflict':
        return `${option} and weights cannot be used together.`
      case 'not_in_weights':
        return `${option} names a path that is not in the weights.`
      case 'operator_only':
        return 'Only the operator can use weights of the server or of its object store. Use an https URL.'
      case 'slash':
        return 'The name of an adapter of a private deployment cannot contain a slash. It follows the account: `ACCOUNT/NAME`.'
      case 'twice':
        return `${option} has the same name or path twice.`
    }
  }),
  recipe_missing: invalid(
    'The deployment names neither a recipe nor a model of the catalog.',
    'Set `recipe` or `catalogModel`.',
  ),
  catalog_model_not_found: notFound(
    ({ model, similar }: { readonly model: string; readonly similar: readonly string[] }) =>
      `The catalog has no model ${JSON.stringify(model)}.${similar.length === 0 ? '' : ` It has ${similar.slice(0, 5).join(', ')}.`}`,
    'List the catalog with "berth catalog ls", or name a recipe.',
  ),
  model_gated: invalid(
    ({ model }: Model) => `The files of ${model} are only for people who accepted its license.`,
    'Accept it on the page of the model, and pass your token as the variable HF_TOKEN.',
  ),
  driver_too_old: noCapacity(
    ({ recipe, needs, has }: { readonly recipe: string; readonly needs: string; readonly has: string }) =>
      `The image of ${recipe} needs a driver for CUDA ${needs}, and the machine has one for CUDA ${has}.`,
    'Choose other GPUs, or an image for an older driver.',
  ),
  gpu_vendor_differs: noCapacity(
    ({ recipe, needs, has }: { readonly recipe: string; readonly needs: Vendor; readonly has: Vendor }) =>
      `The image of ${recipe} is for GPUs of ${vendorNames[needs]}, and the machine has GPUs of ${vendorNames[has]}.`,
    'Choose other GPUs, or an image for these and its `gpuVendor`.',
  ),
  heads_not_divisible: invalid(
    ({ heads, gpuCount }: { readonly heads: number; readonly gpuCount: number }) =>
      `${gpuCount} GPUs cannot share the ${heads} attention heads of the model.`,
    'Choose a number of GPUs that divides them.',
  ),
  model_does_not_fit: noCapacity(
    ({ model, need, have }: { readonly model: string; readonly need: string; readonly have: string }) =>
      `The model ${model} does not fit: it needs ${need}, but only ${have} is available.`,
    'Use more or larger GPUs, or a smaller or quantised model.',
  ),

  model_not_allowed: forbidden(({ model }: Model) => `This key cannot use the model ${JSON.stringify(model)}.`),
  model_missing: invalid('The request does not specify a model.', 'Set `model`.'),
  wrong_model_kind: invalid(
    ({ model, kind }: { readonly model: string; readonly kind: string }) =>
      `The model ${model} (${kind}) cannot be used for this request.`,
    'Choose another model.',
  ),
  model_loading: unavailable(asGiven),
  not_supported: invalid(
    (what: { readonly access: 'terminal' | 'logs' } | { readonly feature: string; readonly model?: string }) =>
      'access' in what
        ? `Machines of this kind have no ${what.access === 'logs' ? 'logs' : 'web terminal'}. Connect over SSH.`
        : `${what.model === undefined ? 'This model' : `The model ${what.model}`} does not support ${what.feature}. Leave it out, or choose another model.`,
  ),
  sound_format: invalid(
    ({ format }: { readonly format: string | undefined }) =>
      format === undefined ? 'file: not a known sound format.' : `file: ${format} cannot be read.`,
    'Send WAV, MP3, FLAC or Ogg Opus. To convert a file: `ffmpeg -i recording.m4a -ac 1 -ar 16000 recording.wav`.',
  ),
  sound_damaged: invalid('The recording in `file` is damaged or empty.', 'Check that it plays, and send it again.'),
  sound_too_long: invalid(
    ({ hours }: { readonly hours: number }) => `file: the recording is longer than ${hours} hours.`,
    'Send it in parts.',
  ),
  logprobs_missing: invalid('`top_logprobs` requires `logprobs: true`.'),
  bad_size: invalid('`size` must be a width and a height from 128 to 2496 pixels, such as 512x512.'),
  audio_format: invalid(
    ({ format }: { readonly format: string; readonly available: readonly string[] }) =>
      `The voices of this server cannot be encoded as ${format}: no encoder of it has a permissive license.`,
    ({ available }) => `Choose ${available.join(', ')}, or a model whose own server encodes it.`,
  ),
  no_deployment: unavailable(
    ({ model }: Model) => `No deployment serves the model ${model} right now.`,
    'Choose another model, or try again later.',
  ),
  overloaded: unavailable(
    ({ model, retryAfterMs }: { readonly model: string | undefined; readonly retryAfterMs: number }) =>
      `${model === undefined ? 'The server' : `The model ${model}`} is busy. Try again in ${secondsOf(retryAfterMs)} s.`,
  ),
  model_queue_full: rateLimited(
    ({ model, retryAfterMs }: { readonly model: string; readonly retryAfterMs: number }) =>
      `Too many requests are waiting for the model ${model}. Try again in ${secondsOf(retryAfterMs)} s.`,
  ),
  engine_timeout: unavailable(
    ({ model }: Model) => `The model ${model} did not answer in time. You were not charged.`,
    'Try again.',
  ),
  engine_failed: unavailable(
    ({ model }: Model) => `The model ${model} failed to answer. You were not charged.`,
    'Try again.',
  ),
  upstream_error: unavailable(
    ({ model }: Model) => `The model ${model} failed to answer. You were not charged.`,
    'Try again. If it keeps failing, contact the operator.',
  ),
  rejected_by_model: invalid(asGiven),
  /** OpenAI clients recognise the message by its first words. */
  context_length_exceeded: invalid(asGiven),
  response_not_found: notFound(
    'There is no such response in this account, or one that it continues was deleted.',
    'Send the whole conversation as input.',
  ),
  conversation_too_long: invalid(
    ({ max }: { readonly max: string }) => `The stored conversation has more than ${max}.`,
    'Send a shorter one as input.',
  ),
  bad_sealed_reasoning: invalid(
    'The encrypted reasoning was changed, or comes from another account or service.',
    'Leave the item out.',
  ),
  client_disconnected: unavailable('The client closed the connection.'),
  cannot_record: unavailable(
    'The server cannot record requests right now, so it is rejecting them.',
    'Try again in a moment.',
  ),
  balance_unreachable: unavailable('The server cannot read the balance right now.', 'Try again in a moment.'),
  concurrency_limit: rateLimited(
    ({ limit }: { readonly limit: number }) => `The account already has ${limit} inference requests in progress.`,
    'Wait until one of them has finished.',
  ),
} as const

/** Reasons of the engines that run on a server's own machine. */
export const engineReasons = {
  not_found: notFound(({ route }: { readonly route: string }) => `No such endpoint: ${route}.`),
  too_large: invalid(({ maxBytes }: { readonly maxBytes: number }) => `The body is longer than ${maxBytes} bytes.`),
  invalid_body: invalid('The body must be a JSON object.'),
  invalid_value: invalid(asGiven),
  unsupported_parameter: invalid(({ name }: { readonly name: string }) => `This engine does not support ${name}.`),
  unsupported_schema: invalid(asGiven),
  invalid_messages: invalid(
    ({ cause }: { readonly cause: string }) => `The model's chat template rejects these messages: ${cause}`,
  ),
  empty_input: invalid(({ name }: { readonly name: string }) => `${name}: contains no text.`),
  not_speakable: invalid(({ letters }: { readonly letters: readonly string[] }) =>
    letters.length === 0
      ? 'text: contains no words.'
      : `text: the voices speak English and cannot pronounce: ${letters.join(' ')}`,
  ),
  not_available: invalid(
    ({ name, available }: { readonly name: string; readonly available: readonly string[] }) =>
      `${name}: not available. Choose one of ${available.join(', ')}.`,
  ),
  queue_full: unavailable(
    ({ waiting, retryAfterMs }: { readonly waiting: number; readonly retryAfterMs: number }) =>
      `Queue full (${waiting} waiting). Try again in about ${secondsOf(retryAfterMs)} s.`,
  ),
} as const
