/** Turns recordings into text. A recording is dropped, chosen or made in the page. Texts stay in the page. */
import { getRouteApi } from '@tanstack/react-router'
import { useState, type DragEvent } from 'react'
import { limits } from '../../../src/base/limits.ts'
import { fileSize } from '../../../src/view/number.ts'
import type { Model } from '../../api/inference.ts'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { cx } from '../../ui/class.ts'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { TextField } from '../../ui/field.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Page } from '../../ui/page.tsx'
import { CodeButton } from '../playground/code.tsx'
import { ModelField, WithModel } from '../playground/model.tsx'
import { transcriptionProtocols } from '../playground/protocol.ts'
import { PlaygroundSkeleton } from '../playground/skeleton.tsx'
import { clock, useRecorder, type Recorder } from './recorder.ts'
import { ACCEPTED } from './sound-file.ts'
import { Transcripts } from './transcript.tsx'
import { useTranscription, type TranscriptionOrder } from './transcription.ts'

const route = getRouteApi('/shell/transcription')

const MAX_PROMPT_CHARS = 10_000
const MAX_LANGUAGE_CHARS = 20
const EXAMPLE_FILE = 'recording.wav'

export function TranscriptionPage() {
  const { model: modelId } = route.useSearch()
  return (
    <Page intro="Turn recordings into text and subtitles. Texts stay in this page; download the ones you want to keep.">
      <WithModel kind="transcription" modelId={modelId} skeleton={<PlaygroundSkeleton />}>
        {(model, models) => <Transcription model={model} models={models} />}
      </WithModel>
    </Page>
  )
}

function Transcription({ model, models }: { model: Model; models: readonly Model[] }) {
  const navigate = route.useNavigate()
  const work = useTranscription()
  const [language, setLanguage] = useState('')
  const [prompt, setPrompt] = useState('')
  const order: TranscriptionOrder = {
    model: model.id,
    ...(language.trim() === '' ? {} : { language: language.trim() }),
    ...(prompt.trim() === '' ? {} : { prompt: prompt.trim() }),
  }
  const recorder = useRecorder((file) => work.transcribe(file, order))
  return (
    <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_20rem]">
      <div className="flex min-w-0 flex-col gap-5">
        <Card
          title="Recording"
          actions={<CodeButton make={() => transcriptionProtocols(location.origin, { ...order }, EXAMPLE_FILE)} />}
        >
          <div className="flex flex-col gap-3">
            <DropZone disabled={work.isBusy || recorder.isRecording} onFile={(file) => work.transcribe(file, order)} />
            <RecordButton recorder={recorder} disabled={work.isBusy} />
            {recorder.problem !== undefined && <Notice tone="warn">{recorder.problem}</Notice>}
            {work.error !== null && <ErrorNotice error={work.error} onRetry={() => work.repeat(order)} />}
            {work.isBusy && (
              <div role="status" className="flex flex-wrap items-center justify-between gap-2 text-sm">
                Transcribing {work.fileName} …<Button onClick={work.stop}>Stop</Button>
              </div>
            )}
          </div>
        </Card>
        <Transcripts transcripts={work.transcripts} />
      </div>
      <Card title="Model and hints">
        <div className="flex flex-col gap-4">
          <ModelField
            model={model}
            models={models}
            disabled={work.isBusy}
            onChoose={(id) => void navigate({ search: { model: id }, replace: true })}
          />
          <TextField
            label="Language"
            value={language}
            maxLength={MAX_LANGUAGE_CHARS}
            placeholder="Default"
            hint="For example en. The built-in model reads English."
            onChange={(event) => setLanguage(event.target.value)}
          />
          <TextField
            label="Prompt"
            value={prompt}
            maxLength={MAX_PROMPT_CHARS}
            hint="Names and words to expect, for models that take a prompt. The built-in model takes none."
            onChange={(event) => setPrompt(event.target.value)}
          />
        </div>
      </Card>
    </div>
  )
}

/** A file can be dropped anywhere on this area. */
function DropZone({ disabled, onFile }: { disabled: boolean; onFile: (file: File) => void }) {
  const [isOver, setOver] = useState(false)
  const drop = (event: DragEvent): void => {
    event.preventDefault()
    setOver(false)
    const [file] = event.dataTransfer.files
    if (file !== undefined && !disabled) onFile(file)
  }
  return (
    // The file field inside does the same for keyboards and screen readers.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions
    <div
      role="group"
      aria-label="Drop a recording here"
      onDragOver={(event) => {
        event.preventDefault()
        setOver(true)
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
      className={cx('rounded-lg border border-dashed p-5', isOver ? 'border-accent bg-sunken' : 'border-line-strong')}
    >
      <TextField
        label="Drop a recording here, or choose one"
        type="file"
        accept={ACCEPTED}
        disabled={disabled}
        hint={`WAV, MP3, FLAC or Ogg Opus, at most ${fileSize(limits.soundBytes)}. Your browser converts other formats that it plays.`}
        onChange={(event) => {
          const [file] = event.target.files ?? []
          // Cleared, so that the same file can be chosen again.
          event.target.value = ''
          if (file !== undefined) onFile(file)
        }}
      />
    </div>
  )
}

function RecordButton({ recorder, disabled }: { recorder: Recorder; disabled: boolean }) {
  if (!recorder.isAvailable) {
    return <p className="text-sm text-muted">Recording needs a page on https or on localhost.</p>
  }
  return (
    <div className="flex flex-wrap items-center gap-3">
      {recorder.isRecording ? (
        <Button look="danger" onClick={recorder.stop}>
          Stop and transcribe
        </Button>
      ) : (
        <Button look="primary" disabled={disabled} onClick={recorder.start}>
          Record
        </Button>
      )}
      {recorder.isRecording && (
        <>
          <Button onClick={recorder.discard}>Discard</Button>
          <span role="timer" className="text-sm text-muted tabular-nums">
            {clock(recorder.seconds)}
          </span>
        </>
      )}
    </div>
  )
}
