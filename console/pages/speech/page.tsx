/** Text to speech, with playback, download and cost. */
import { getRouteApi } from '@tanstack/react-router'
import { useEffect, useRef, useState, type FormEvent } from 'react'
import type { CallInput } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { count, number } from '../../../src/view/number.ts'
import { client } from '../../api/client.ts'
import { fileOf, isStopped, noteRequest, problemOf, type Model } from '../../api/inference.ts'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { TextArea, TextField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { CodeButton } from '../playground/code.tsx'
import { RequestCost } from '../playground/cost.tsx'
import { DownloadLink } from '../../ui/download-link.tsx'
import { ModelField, WithModel } from '../playground/model.tsx'
import { ParameterFields, readParameters, type Parameter, type Typed } from '../playground/parameter.tsx'
import { PlaygroundSkeleton } from '../playground/skeleton.tsx'
import { speechProtocols } from '../playground/protocol.ts'
import { VoiceField } from './voice.tsx'

const route = getRouteApi('/shell/speech')

const EXAMPLE = 'The ship is in the harbour.'
const MAX_CHARS = 100_000
/** The maximum of takes: each is a file in the browser's memory. */
const MAX_TAKES = 20

const parameters: readonly Parameter[] = [
  { name: 'speed', label: 'Speed', hint: '1 is normal, 2 is twice as fast.', least: 0.1, most: 5 },
]

export function SpeechPage() {
  const { model: modelId } = route.useSearch()
  return (
    <Page intro="Turn text into speech. Recordings stay in this page; download the ones you want to keep.">
      <WithModel kind="speech" modelId={modelId} skeleton={<PlaygroundSkeleton />}>
        {(model, models) => <Speech model={model} models={models} />}
      </WithModel>
    </Page>
  )
}

function Speech({ model, models }: { model: Model; models: readonly Model[] }) {
  const navigate = route.useNavigate()
  const speech = useSpeech()
  const [text, setText] = useState('')
  const [speaker, setSpeaker] = useState('')
  const [language, setLanguage] = useState('')
  const [typed, setTyped] = useState<Typed>({})
  const { values, faults } = readParameters(parameters, typed)
  const isWrong = Object.keys(faults).length > 0
  const order: SpeechOrder = {
    model: model.id,
    text: text.trim() === '' ? EXAMPLE : text,
    ...(speaker.trim() === '' ? {} : { speaker: speaker.trim() }),
    ...(language.trim() === '' ? {} : { language: language.trim() }),
    ...values,
  }
  const canSpeak = text.trim() !== '' && !isWrong && !speech.isBusy
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    if (canSpeak) speech.speak(order)
  }
  return (
    <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_20rem]">
      <div className="flex min-w-0 flex-col gap-5">
        <Card
          title="Text"
          actions={<CodeButton disabled={isWrong} make={() => speechProtocols(location.origin, order)} />}
        >
          <form onSubmit={submit} className="flex flex-col gap-3">
            <TextArea
              label="Text"
              hideLabel
              rows={6}
              required
              maxLength={MAX_CHARS}
              value={text}
              placeholder={EXAMPLE}
              hint={`${number(Array.from(text).length)} of ${number(MAX_CHARS)} characters, billed per character.`}
              onChange={(event) => setText(event.target.value)}
            />
            {speech.error !== null && <ErrorNotice error={speech.error} onRetry={() => speech.speak(order)} />}
            <div className="flex justify-end gap-2">
              {speech.isBusy && <Button onClick={speech.stop}>Stop</Button>}
              <Button type="submit" look="primary" busy={speech.isBusy} disabled={!canSpeak}>
                {speech.isBusy ? 'Generating …' : 'Generate'}
              </Button>
            </div>
          </form>
        </Card>
        <Takes takes={speech.takes} />
      </div>
      <Card title="Model and voice">
        <div className="flex flex-col gap-4">
          <ModelField
            model={model}
            models={models}
            disabled={speech.isBusy}
            onChoose={(id) => void navigate({ search: { model: id }, replace: true })}
          />
          <VoiceField value={speaker} onChange={setSpeaker} />
          <LanguageField value={language} onChange={setLanguage} />
          <ParameterFields parameters={parameters} typed={typed} faults={faults} onChange={setTyped} />
        </div>
      </Card>
    </div>
  )
}

function LanguageField({ value, onChange }: { value: string; onChange: (language: string) => void }) {
  return (
    <TextField
      label="Language"
      value={value}
      maxLength={20}
      placeholder="Default"
      hint="For example en-US."
      onChange={(event) => onChange(event.target.value)}
    />
  )
}

type SpeechOrder = CallInput<'generateAudio'>['body']

interface Take {
  readonly requestId: string
  readonly order: SpeechOrder
  readonly url: string
  readonly seconds: number
  readonly characters: number
}

function Takes({ takes }: { takes: readonly Take[] }) {
  if (takes.length === 0) return <Empty title="No recordings yet">Enter a text and press Generate.</Empty>
  return (
    <ul aria-label="Recordings of this session" className="flex flex-col gap-3">
      {takes.map((take) => (
        <TakeView key={take.requestId} take={take} />
      ))}
    </ul>
  )
}

function TakeView({ take: { order, url, seconds, characters, requestId } }: { take: Take }) {
  return (
    <li className="flex min-w-0 flex-col gap-2 rounded-lg border border-line bg-surface p-4">
      <p className="line-clamp-2 text-sm break-words">{order.text}</p>
      <div className="flex flex-wrap items-center gap-3">
        {/* The text is above it. */}
        {/* oxlint-disable-next-line jsx-a11y/media-has-caption */}
        <audio controls src={url} aria-label={`Play: ${order.text.slice(0, 60)}`} className="h-10 min-w-0 flex-1" />
        <DownloadLink href={url} file="speech.mp3" />
      </div>
      <p className="text-xs text-muted tabular-nums">
        {seconds.toFixed(1)} s · {count(characters, 'character')} · {order.speaker ?? 'default voice'} ·{' '}
        <RequestCost requestId={requestId} />
      </p>
    </li>
  )
}

function useSpeech() {
  const [takes, setTakes] = useState<readonly Take[]>([])
  const [isBusy, setIsBusy] = useState(false)
  const [error, setError] = useState<ClientError | null>(null)
  const running = useRef<AbortController>(undefined)
  // Newest first, like the takes.
  const urls = useRef<string[]>([])
  useEffect(() => {
    const list = urls.current
    return () => {
      running.current?.abort()
      for (const url of list) URL.revokeObjectURL(url)
    }
  }, [])
  const speak = async (order: SpeechOrder): Promise<void> => {
    const controller = new AbortController()
    running.current = controller
    setIsBusy(true)
    setError(null)
    try {
      const { requestId, answer } = await client.infer('generateAudio', { body: order, signal: controller.signal })
      const url = URL.createObjectURL(fileOf(answer.audio, 'audio/mpeg'))
      urls.current.unshift(url)
      for (const old of urls.current.splice(MAX_TAKES)) URL.revokeObjectURL(old)
      const take = { requestId, order, url, seconds: answer.duration, characters: answer.usage }
      setTakes((all) => [take, ...all].slice(0, MAX_TAKES))
    } catch (problem) {
      if (!isStopped(problem)) setError(problemOf(problem))
    } finally {
      setIsBusy(false)
    }
    await noteRequest()
  }
  return {
    takes,
    isBusy,
    error,
    speak: (order: SpeechOrder): void => void speak(order),
    stop: (): void => running.current?.abort(),
  }
}
