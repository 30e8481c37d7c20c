/** Sends recordings and collects their texts. */
import { useEffect, useRef, useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { client } from '../../api/client.ts'
import { isStopped, noteRequest, problemOf } from '../../api/inference.ts'
import { takenForm } from './sound-file.ts'

const MAX_TRANSCRIPTS = 20

/** The form fields beside the file. */
export interface TranscriptionOrder {
  readonly model: string
  readonly language?: string
  readonly prompt?: string
}

export interface Transcript {
  readonly requestId: string
  readonly fileName: string
  readonly answer: Reply<'createTranscription'>
}

export function useTranscription() {
  const [transcripts, setTranscripts] = useState<readonly Transcript[]>([])
  const [file, setFile] = useState<File>()
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ClientError | null>(null)
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])
  const transcribe = async (chosen: File, order: TranscriptionOrder): Promise<void> => {
    const controller = new AbortController()
    running.current = controller
    setFile(chosen)
    setBusy(true)
    setError(null)
    try {
      const form = new FormData()
      for (const [name, value] of Object.entries({ ...order, response_format: 'verbose_json' })) form.set(name, value)
      form.set('file', await takenForm(chosen))
      const { requestId, answer } = await client.inferForm('createTranscription', form, { signal: controller.signal })
      const transcript = { requestId, fileName: chosen.name, answer }
      setTranscripts((all) => [transcript, ...all].slice(0, MAX_TRANSCRIPTS))
    } catch (problem) {
      if (!isStopped(problem)) setError(problemOf(problem))
    } finally {
      setBusy(false)
    }
    await noteRequest()
  }
  return {
    transcripts,
    isBusy,
    error,
    fileName: file?.name ?? '',
    transcribe: (chosen: File, order: TranscriptionOrder): void => void transcribe(chosen, order),
    repeat: (order: TranscriptionOrder): void => {
      if (file !== undefined) void transcribe(file, order)
    },
    stop: (): void => running.current?.abort(),
  }
}
