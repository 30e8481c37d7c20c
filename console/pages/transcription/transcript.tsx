/** Texts of recordings, with their segments, downloads and cost. */
import { writeSrt, writeVtt } from '../../../src/domain/subtitle.ts'
import { CopyButton } from '../../ui/copy.tsx'
import { DownloadLink } from '../../ui/download-link.tsx'
import { Empty } from '../../ui/empty.tsx'
import { RequestCost } from '../playground/cost.tsx'
import { clock } from './recorder.ts'
import type { Transcript } from './transcription.ts'

export function Transcripts({ transcripts }: { transcripts: readonly Transcript[] }) {
  if (transcripts.length === 0) return <Empty title="No texts yet">Drop a recording, or record one.</Empty>
  return (
    <ul aria-label="Texts of this session" className="flex flex-col gap-3">
      {transcripts.map((transcript) => (
        <TranscriptView key={transcript.requestId} transcript={transcript} />
      ))}
    </ul>
  )
}

function TranscriptView({ transcript: { fileName, answer, requestId } }: { transcript: Transcript }) {
  const { text, usage, segments = [] } = answer
  const name = fileName.replace(/\.[^.]*$/, '')
  return (
    <li className="flex min-w-0 flex-col gap-3 rounded-lg border border-line bg-surface p-4">
      <p className="text-sm font-medium break-words">{fileName}</p>
      {segments.length === 0 ? (
        <p className="text-sm break-words whitespace-pre-wrap">{text === '' ? 'No words were recognized.' : text}</p>
      ) : (
        <ol
          aria-label={`Text of ${fileName}`}
          className="flex max-h-96 flex-col gap-1 overflow-y-auto text-sm"
          tabIndex={0}
        >
          {segments.map((segment) => (
            <li key={segment.id} className="grid grid-cols-[3.5rem_minmax(0,1fr)] gap-2">
              <span className="text-muted tabular-nums">{clock(segment.start)}</span>
              <span className="break-words">{segment.text}</span>
            </li>
          ))}
        </ol>
      )}
      <div className="flex flex-wrap items-center gap-2">
        <CopyButton text={text} />
        <TextDownload text={`${text}\n`} file={`${name}.txt`} label="Text" />
        {segments.length > 0 && (
          <>
            <TextDownload text={writeSrt(segments)} file={`${name}.srt`} label="SRT" />
            <TextDownload text={writeVtt(segments)} file={`${name}.vtt`} label="VTT" />
          </>
        )}
      </div>
      <p className="text-xs text-muted tabular-nums">
        {usage.seconds.toFixed(1)} s · <RequestCost requestId={requestId} />
      </p>
    </li>
  )
}

/** The text is in the link itself: it is short, and such a link needs no cleanup. */
function TextDownload({ text, file, label }: { text: string; file: string; label: string }) {
  return (
    <DownloadLink href={`data:text/plain;charset=utf-8,${encodeURIComponent(text)}`} file={file}>
      {label}
    </DownloadLink>
  )
}
