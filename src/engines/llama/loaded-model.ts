/** A loaded model with a context whose sequences are evaluated together in batches. */
import os from 'node:os'
import { getLlama, LlamaLogLevel, type Llama, type LlamaContextSequence, type LlamaModel } from 'node-llama-cpp'
import { ChatPrompt } from './chat-prompt.ts'
import { checkGgufHeader } from './gguf-header.ts'
import { nativeContextOf, orderSampling } from './ordered-sampling.ts'
import { Vocabulary } from './vocabulary.ts'

export interface LoadOptions {
  readonly file: string
  /** null: the size in the file, or as much as fits into memory. */
  readonly contextTokens: number | null
  readonly sequences: number
  /** null: all cores but one, which stays free for the server. */
  readonly threads: number | null
}

export interface LoadedModel {
  readonly llama: Llama
  readonly model: LlamaModel
  readonly sequences: readonly LlamaContextSequence[]
  readonly contextTokens: number
  readonly vocabulary: Vocabulary
  readonly chatPrompt: ChatPrompt
}

const MAX_COMPLAINTS = 10
const LOG_LAG_MS = 200

export async function loadModel(
  options: LoadOptions,
  on: { readonly progress: (share: number) => void; readonly log: (line: string) => void },
): Promise<LoadedModel> {
  await checkGgufHeader(options.file)
  // With more threads than free cores llama.cpp's threads wait for each other, and a token takes seconds.
  const threads = options.threads ?? Math.max(1, os.availableParallelism() - 1)
  const complaints: string[] = []
  const llama = await getLlama({
    build: 'never',
    skipDownload: true,
    gpu: false,
    maxThreads: threads,
    logLevel: LlamaLogLevel.warn,
    logger: (level, message) => {
      if (level === LlamaLogLevel.error && complaints.length < MAX_COMPLAINTS) complaints.push(message.trim())
      on.log(`llama.cpp ${level}: ${message}`)
    },
  })
  const model = await llama
    .loadModel({ modelPath: options.file, onLoadProgress: on.progress })
    .catch(async (error: unknown) => {
      // The library's error has no reason. The reason is logged a moment later.
      await new Promise((resolve) => setTimeout(resolve, LOG_LAG_MS))
      throw new Error(complaints[0] ?? String(error), { cause: error })
    })
  const { bosString, eosString } = model.tokens
  const vocabulary = new Vocabulary(model)
  const chatPrompt = new ChatPrompt({
    template: model.fileInfo.metadata.tokenizer.chat_template ?? null,
    bosText: bosString ?? '',
    eosText: eosString ?? '',
    specialTexts: vocabulary.specialTexts,
  })
  const contextSize = options.contextTokens === null ? null : Math.min(options.contextTokens, model.trainContextSize)
  const context = await model.createContext({
    sequences: options.sequences,
    contextSize: contextSize ?? { max: model.trainContextSize },
    threads,
    // Otherwise models with sliding windows could not reuse the beginning of a prompt.
    swaFullCache: true,
  })
  orderSampling(nativeContextOf(context))
  return {
    llama,
    model,
    sequences: Array.from({ length: options.sequences }, () => context.getSequence()),
    // The library may round the size up.
    contextTokens: Math.min(contextSize ?? context.contextSize, context.contextSize),
    vocabulary,
    chatPrompt,
  }
}
