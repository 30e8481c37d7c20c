/** The dialog that uploads a file of requests and starts it as a batch. */
import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState, type FormEvent } from 'react'
import { limits } from '../../../src/base/limits.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { batchPaths, type BatchPath } from '../../../src/contract/batch-state.ts'
import { endpointOfLine, type Batch } from '../../../src/view/batch.ts'
import { fileSize } from '../../../src/view/number.ts'
import { client } from '../../api/client.ts'
import { makeOnceKey } from '../../api/once.ts'
import { call, refresh } from '../../api/query.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'

interface Input {
  readonly file: File
  /** undefined: the first line names no endpoint. */
  readonly endpoint: BatchPath | undefined
  /** The idempotency key: however often the dialog sends the file, it is uploaded once and runs once. */
  readonly onceKey: string
}

export function RunDialog({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate()
  const [input, setInput] = useState<Input>()
  const [isTried, setTried] = useState(false)
  const run = useMutation<Batch, ClientError, Input & { readonly endpoint: BatchPath }>({ mutationFn: runBatch })
  const problem = problemOf(input)
  const choose = async (files: FileList | null): Promise<void> => {
    const [file] = files ?? []
    setInput(file && { file, endpoint: endpointOfLine(await firstLineOf(file)), onceKey: makeOnceKey() })
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    if (input?.endpoint === undefined || problem !== undefined) return
    const onSuccess = ({ id }: Batch): void => {
      toast('Batch created')
      onClose()
      void refresh(['listBatches', 'listFiles'])
      void navigate({ to: '/batches/$id', params: { id } })
    }
    run.mutate({ ...input, endpoint: input.endpoint }, { onSuccess })
  }
  return (
    <FormDialog
      title="Run a batch"
      action="Run"
      form={{ submit, isPending: run.isPending, elsewhere: () => ({ error: run.error, messages: [] }) }}
      onClose={onClose}
    >
      <TextField
        label="File"
        type="file"
        accept=".jsonl,.ndjson,.txt"
        aria-required
        hint={`One request per line, all of one model; at most ${limits.batchLines.toLocaleString('en-US')} lines and ${fileSize(limits.uploadBytes)}`}
        error={isTried || input !== undefined ? problem : undefined}
        onChange={(event) => void choose(event.target.files)}
      />
      <pre className="overflow-x-auto rounded-md bg-sunken p-3 text-xs">{EXAMPLE}</pre>
      <p className="text-sm text-muted">
        Lines run on capacity that nobody else uses, and end within a day. Each is charged at the batch price of its
        model when it has its answer; lines that fail are free.
      </p>
    </FormDialog>
  )
}

const EXAMPLE = `{"custom_id": "one", "method": "POST",
 "url": "${batchPaths[0] ?? ''}",
 "body": {"model": "…", "messages": […]}}`

function problemOf(input: Input | undefined): string | undefined {
  if (input === undefined) return 'Choose a file'
  if (input.file.size > limits.uploadBytes) return `It has ${fileSize(input.file.size)}: split it into several files`
  if (input.endpoint !== undefined) return undefined
  return `The "url" of its first line must be one of ${batchPaths.join(', ')}`
}

/** The first line may be as long as a request. */
async function firstLineOf(file: File): Promise<string> {
  const text = await file.slice(0, limits.inferenceBodyBytes).text()
  return text.split('\n').find((line) => line.trim() !== '') ?? ''
}

async function runBatch({ file, endpoint, onceKey }: Input & { readonly endpoint: BatchPath }): Promise<Batch> {
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', file)
  const options = { idempotencyKey: `${onceKey}-file`, timeoutMs: limits.uploadMs }
  const { id } = await client.callForm('uploadFile', form, options)
  const body = { input_file_id: id, endpoint, completion_window: '24h' } as const
  return call('createBatch', { body, idempotencyKey: `${onceKey}-batch` })
}
