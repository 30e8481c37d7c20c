import { describe, expect, test } from 'vitest'
import { findElement, parseXml } from './xml.ts'

describe('XML is read', () => {
  test('with elements in elements, attributes and text', () => {
    const root = parseXml('<?xml version="1.0" ?>\n<a><b id="1" name=\'two words\'> text </b><b/></a>')
    expect(root.name).toBe('a')
    expect(root.children).toMatchObject([
      { name: 'b', attributes: { id: '1', name: 'two words' }, text: 'text', children: [] },
      { name: 'b', attributes: {}, text: '' },
    ])
  })

  test('with the named entities and numbered ones; unknown ones stay as they are', () => {
    const text = '<a b="&quot;&apos;">&lt;&gt;&amp;&#65;&#x42;&nope;&#1114112;&amp;lt;</a>'
    expect(parseXml(text)).toMatchObject({ attributes: { b: '"\'' }, text: '<>&AB&nope;&#1114112;&lt;' })
  })

  test('without comments, instructions and the DOCTYPE, and with nothing in them obeyed', () => {
    const doctype = '<!DOCTYPE a SYSTEM "file:///etc/passwd">'
    expect(parseXml(`${doctype}<!-- <x/> --><a>1<!-- > -->2<?pi <y> ?>3</a>`)).toMatchObject({
      name: 'a',
      text: '123',
      children: [],
    })
    // An entity that a DTD declares is unknown to us: it is never expanded.
    expect(parseXml('<!DOCTYPE a [<!ENTITY e "boom">]><a>&e;</a>').text).toBe('&e;')
  })

  test('with raw text in CDATA', () => {
    expect(parseXml('<a><![CDATA[<b> & ]]></a>')).toMatchObject({ text: '<b> &', children: [] })
  })

  test('with a > inside of an attribute', () => {
    expect(parseXml('<a b="1 > 0"><c/></a>')).toMatchObject({ attributes: { b: '1 > 0' }, children: [{ name: 'c' }] })
  })

  test('as far as it goes where it is cut off, and past end tags of nothing', () => {
    expect(parseXml('<a><b>1</b></x><c>2')).toMatchObject({ children: [{ text: '1' }, { name: 'c', text: '2' }] })
    expect(parseXml('<a><b><c>1</b><d/></a>')).toMatchObject({
      children: [{ name: 'b', children: [{ name: 'c' }] }, { name: 'd' }],
    })
  })

  test('with attributes that have the names of what every object has', () => {
    expect(parseXml('<a __proto__="x" constructor="y"/>').attributes['constructor']).toBe('y')
  })

  test('by a path of names', () => {
    const root = parseXml('<a><b><c>1</c></b><b><c>2</c></b></a>')
    expect(findElement(root, 'b', 'c')?.text).toBe('1')
    expect(findElement(root, 'b', 'x', 'c')).toBeUndefined()
  })
})

describe('XML is refused', () => {
  test.each([
    ['that is none', 'No devices were found', 'no XML'],
    ['that is empty', '', 'no XML'],
    ['that is too deep', '<a>'.repeat(33), 'more than 32 elements deep'],
    ['that is too long', `<a>${'x'.repeat(8 * 1_048_576)}</a>`, 'too long'],
    ['of too many elements', `<a>${'<b/>'.repeat(50_000)}</a>`, 'more than 50000 elements'],
  ])('%s', (_, text, message) => {
    expect(() => parseXml(text)).toThrow(message)
  })
})
