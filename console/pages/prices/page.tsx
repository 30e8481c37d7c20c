/**
 * The price book. Changes are collected and saved together, with one reason. Current rentals keep their price.
 */
import { useState } from 'react'
import { count } from '../../../src/view/number.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { changesOf, emptyDraft, type Draft, type PriceBook } from './draft.ts'
import { GpuPrices } from './gpus.tsx'
import { SavePricesDialog } from './save.tsx'
import { StoragePrices } from './storage.tsx'
import { TermPrices } from './terms.tsx'

const tabs = { gpus: 'GPUs', storage: 'Storage', terms: 'Terms' } as const

/** Further faults are only counted. */
const FAULTS_SHOWN = 3

export function PricesPage() {
  const book = useCall('getPriceBook')
  return (
    <Page intro="Prices of virtual machines, bare metal and storage. Suppliers set the prices of marketplace machines. Current rentals keep their price.">
      <Answer of={book} skeleton={<Skeleton rows={12} />}>
        {(value) => <Book book={value} />}
      </Answer>
    </Page>
  )
}

function Book({ book }: { book: PriceBook }) {
  const [draft, setDraft] = useState<Draft>(emptyDraft)
  const [tab, setTab] = useState<keyof typeof tabs>('gpus')
  const [isSaving, setSaving] = useState(false)
  const changes = changesOf(book, draft)
  const { list, faults } = changes
  const parts = { book, draft, onDraft: setDraft }
  return (
    <>
      {/* Scrolls a focused field above the bar with the buttons. */}
      <div className="[&_input]:scroll-mb-24">
        <Tabs label="Kinds of prices" tabs={tabs} chosen={tab} onChoose={setTab}>
          {tab === 'gpus' && <GpuPrices {...parts} />}
          {tab === 'storage' && <StoragePrices {...parts} />}
          {tab === 'terms' && <TermPrices {...parts} />}
        </Tabs>
      </div>
      <div className="sticky bottom-0 -mx-4 flex flex-wrap items-center justify-between gap-3 border-t border-line bg-surface px-4 py-3 sm:-mx-6 sm:px-6">
        <div role="status" className="min-w-0 text-sm text-muted">
          {list.length === 0 ? 'No changes.' : `${count(list.length, 'unsaved change')}.`}
          {faults.slice(0, FAULTS_SHOWN).map((fault) => (
            <p key={fault} className="text-bad">
              {fault}
            </p>
          ))}
          {faults.length > FAULTS_SHOWN && <p className="text-bad">And {faults.length - FAULTS_SHOWN} more.</p>}
        </div>
        <div className="flex gap-2">
          <Button disabled={list.length === 0} onClick={() => setDraft(emptyDraft)}>
            Discard
          </Button>
          <Button look="primary" disabled={list.length === 0 || faults.length > 0} onClick={() => setSaving(true)}>
            {list.length === 0 ? 'Save' : `Save ${count(list.length, 'change')}`}
          </Button>
        </div>
      </div>
      {isSaving && (
        <SavePricesDialog
          list={list}
          body={changes.body}
          onSaved={() => {
            setDraft(emptyDraft)
            setSaving(false)
          }}
          onClose={() => setSaving(false)}
        />
      )}
    </>
  )
}
