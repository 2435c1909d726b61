// The scenes of KafkaJS against a broker: `node scenes.js SCENE BOOTSTRAP NAME` prints a line for each finding.
'use strict'

const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, PartitionAssigners, logLevel } = require('kafkajs')
const snappy = require('snappyjs')

// KafkaJS has gzip alone built in: other codecs are plugged in. Java's snappy framing is not needed to be read here.
CompressionCodecs[CompressionTypes.Snappy] = () => ({
  compress: async encoder => snappy.compress(encoder.buffer),
  decompress: async buffer => snappy.uncompress(buffer),
})

const [scene, bootstrap, name] = process.argv.slice(2)
const kafka = new Kafka({
  clientId: 'interop', brokers: [bootstrap], logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 60 },
})

function expect(holds, what) {
  if (!holds) throw new Error(what)
}

async function withAdmin(work) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

async function topicOf(suffix, numPartitions) {
  const topic = `${name}-${suffix}`
  await withAdmin(admin => admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1 }] }))
  return topic
}

// The values of a topic, all of them, until `count` are there or nothing more comes. A reader that loses its broker
// may be handed a record again: an offset counts once.
async function read(topic, { count, readUncommitted = false, onMessage = () => {} }) {
  const consumer = kafka.consumer({ groupId: `${topic}-${readUncommitted}-reader`, readUncommitted, maxWaitTimeInMs: 100 })
  const values = []
  const offsets = new Set()
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    let quiet = setTimeout(resolve, 5000)
    consumer.run({
      eachMessage: async ({ partition, message }) => {
        if (offsets.has(`${partition}-${message.offset}`)) return
        offsets.add(`${partition}-${message.offset}`)
        try {
          onMessage(message, values.length)
        } catch (error) {
          reject(error)
        }
        values.push({ partition, offset: message.offset, value: message.value && message.value.toString() })
        clearTimeout(quiet)
        // One record too many would come at once.
        quiet = setTimeout(resolve, values.length >= count ? 500 : 5000)
      },
    }).catch(reject)
  })
  await consumer.disconnect()
  return values
}

const scenes = {
  async records() {
    const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }
    for (const [codec, compression] of Object.entries(codecs)) {
      const topic = await topicOf(codec, 1)
      const producer = kafka.producer()
      await producer.connect()
      for (let start = 0; start < 1000; start += 250) {
        const messages = Array.from({ length: 250 }, (_, index) => ({
          key: `key ${start + index}`, value: `the same text again and again ${start + index}`,
          headers: { number: `${start + index}` },
        }))
        await producer.send({ topic, compression, messages })
      }
      await producer.send({ topic, compression, messages: [{ key: 'null', value: null }] })
      await producer.disconnect()
      const values = await read(topic, {
        count: 1001,
        onMessage(message, index) {
          expect(message.offset === `${index}`, `offset ${message.offset} at ${index}`)
          if (index < 1000) {
            expect(message.key.toString() === `key ${index}`, `key at ${index}`)
            expect(message.headers.number.toString() === `${index}`, `header at ${index}`)
            expect(message.value.toString().endsWith(` ${index}`), `value at ${index}`)
          } else {
            expect(message.value === null, 'the null value')
          }
        },
      })
      console.log(`${codec}: ${values.length} in order`)
    }
  },

  async idempotent() {
    const topic = await topicOf('idempotent', 1)
    const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    // One after another: KafkaJS numbers concurrent sends in one order and writes them in another.
    for (let number = 0; number < 200; number++) {
      await producer.send({ topic, messages: [{ value: `${number}` }] })
    }
    await producer.disconnect()
    const values = await read(topic, { count: 200 })
    expect(values.every(({ value }, index) => value === `${index}`), 'out of order')
    console.log(`${values.length} in order`)
  },

  async transactions() {
    const topic = await topicOf('transactions', 3)
    const producer = kafka.producer({ transactionalId: name, idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    for (let round = 0; round < 6; round++) {
      const transaction = await producer.transaction()
      for (let partition = 0; partition < 3; partition++) {
        await transaction.send({ topic, messages: [{ partition, value: `${round}-${partition}` }] })
      }
      await (round % 2 ? transaction.abort() : transaction.commit())
    }
    await producer.disconnect()
    for (const [level, readUncommitted, count] of [['read_committed', false, 9], ['read_uncommitted', true, 18]]) {
      const values = await read(topic, { count, readUncommitted })
      console.log(level, values.map(({ value }) => value).sort().join(' '))
    }
  },

  async fencing() {
    const topic = await topicOf('fencing', 1)
    const options = { transactionalId: name, idempotent: true, maxInFlightRequests: 1, retry: { retries: 1 } }
    const zombie = kafka.producer(options)
    await zombie.connect()
    const old = await zombie.transaction()
    await old.send({ topic, messages: [{ value: 'zombie' }] })
    const successor = kafka.producer({ ...options, retry: undefined })
    await successor.connect()
    const fresh = await successor.transaction()
    await fresh.send({ topic, messages: [{ value: 'successor' }] })
    const refused = await old.commit().then(() => 'nothing', error => error.type)
    console.log('fenced by', refused)
    await fresh.commit()
    await successor.disconnect()
    await zombie.disconnect()
    console.log((await read(topic, { count: 1 })).map(({ value }) => value).join(' '))
  },

  // Read, write and commit offsets with the transaction; each third transaction is aborted and done again. After an
  // error a new producer and a new consumer with the same ids go on from what the group has committed.
  async transform() {
    const count = 600
    const source = await topicOf('source', 4)
    const sink = await topicOf('sink', 1)
    const loader = kafka.producer()
    await loader.connect()
    await loader.send({
      topic: source,
      messages: Array.from({ length: count }, (_, number) => ({ partition: number % 4, value: `${number}` })),
    })
    await loader.disconnect()
    console.log('loaded')
    let transactions = 0

    async function transformBatch(producer, batch, hasFailed) {
      for (let start = 0; start < batch.messages.length && !hasFailed(); start += 20) {
        const messages = batch.messages.slice(start, start + 20)
        const offset = (BigInt(messages[messages.length - 1].offset) + 1n).toString()
        for (let isDone = false; !isDone;) {
          const transaction = await producer.transaction()
          await transaction.send({ topic: sink, messages: messages.map(({ value }) => ({ value })) })
          const topics = [{ topic: source, partitions: [{ partition: batch.partition, offset }] }]
          await transaction.sendOffsets({ consumerGroupId: name, topics })
          isDone = ++transactions % 3 !== 0
          await (isDone ? transaction.commit() : transaction.abort())
          await new Promise(resolve => setTimeout(resolve, 20))
        }
      }
      const [{ partitions }] = await withAdmin(admin => admin.fetchOffsets({ groupId: name, topics: [source] }))
      return partitions.reduce((sum, { offset }) => sum + Math.max(0, Number(offset)), 0)
    }

    for (let done = 0; done < count;) {
      const producer = kafka.producer({
        transactionalId: name, idempotent: true, maxInFlightRequests: 1, transactionTimeout: 10000,
      })
      const consumer = kafka.consumer({
        groupId: name, sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 100,
        retry: { restartOnFailure: async () => false },
      })
      await producer.connect()
      // KafkaJS reads committed offsets without waiting for open transactions (no KIP-447): end the last one first.
      await (await producer.transaction()).abort()
      await consumer.connect()
      await consumer.subscribe({ topics: [source], fromBeginning: true })
      // KafkaJS would go on by itself from positions in its memory, which say nothing about transactions: never again.
      let failed = null
      await new Promise(resolve => {
        const fail = error => {
          failed = failed || error
          resolve()
        }
        consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error))
        consumer.run({
          autoCommit: false,
          eachBatch: async ({ batch }) => {
            if (failed) throw failed
            try {
              done = await transformBatch(producer, batch, () => failed)
              if (done >= count) resolve()
            } catch (error) {
              fail(error)
              throw error
            }
          },
        }).catch(fail)
      })
      await consumer.disconnect().catch(() => {})
      await producer.disconnect().catch(() => {})
    }
    const values = (await read(sink, { count })).map(({ value }) => value)
    console.log(`${values.length} records, ${new Set(values).size} different`)
  },

  async group() {
    const topic = await topicOf('shared', 4)
    const groupId = `${name}-group`
    const assigned = [{}, {}]
    const members = assigned.map((own, index) => {
      const consumer = kafka.consumer({
        groupId, partitionAssigners: [PartitionAssigners.roundRobin], heartbeatInterval: 200, maxWaitTimeInMs: 100,
      })
      consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
        assigned[index] = payload.memberAssignment[topic] || []
      })
      return consumer
    })
    const until = async (what, holds) => {
      for (const start = Date.now(); !holds();) {
        expect(Date.now() - start < 30000, `it did not happen in time: ${what}`)
        await new Promise(resolve => setTimeout(resolve, 20))
      }
    }
    for (const consumer of members) {
      await consumer.connect()
      await consumer.subscribe({ topics: [topic], fromBeginning: true })
      await consumer.run({ eachMessage: async () => {} })
    }
    await until('shared', () => assigned[0].length === 2 && assigned[1].length === 2)
    console.log('shared:', [...assigned[0], ...assigned[1]].sort().join(' '))
    const described = await withAdmin(admin => admin.describeGroups([groupId]))
    console.log('described:', described.groups[0].state, described.groups[0].members.length)
    await members[1].disconnect()
    await until('taken over', () => assigned[0].length === 4)
    console.log('taken over:', assigned[0].sort().join(' '))
    await members[0].disconnect()
  },

  async resume() {
    const topic = await topicOf('resume', 1)
    const producer = kafka.producer()
    await producer.connect()
    await producer.send({ topic, messages: Array.from({ length: 10 }, (_, number) => ({ value: `${number}` })) })
    await producer.disconnect()
    for (const take of [4, 6]) {
      const consumer = kafka.consumer({ groupId: name, maxWaitTimeInMs: 100 })
      const seen = []
      await consumer.connect()
      await consumer.subscribe({ topics: [topic], fromBeginning: true })
      await new Promise(resolve => {
        consumer.run({
          autoCommit: false,
          eachMessage: async ({ message }) => {
            if (seen.length === take) return
            seen.push(message.value.toString())
            const offset = (BigInt(message.offset) + 1n).toString()
            await consumer.commitOffsets([{ topic, partition: 0, offset }])
            if (seen.length === take) resolve()
          },
        })
      })
      await consumer.disconnect()
      console.log(seen.join(' '))
    }
  },

  async admin() {
    await withAdmin(async admin => {
      const topic = `${name}-admin`
      const cluster = await admin.describeCluster()
      console.log('brokers:', cluster.brokers.length)
      const request = { topics: [{ topic, numPartitions: 1, configEntries: [{ name: 'retention.ms', value: '3600000' }] }] }
      console.log('created:', await admin.createTopics(request), 'again:', await admin.createTopics(request))
      await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      console.log('partitions:', topics[0].partitions.length)
      const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
      await admin.alterConfigs({
        validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'cleanup.policy', value: 'compact' }] }],
      })
      const described = await admin.describeConfigs({
        includeSynonyms: true, resources: [{ ...resource, configNames: ['cleanup.policy', 'retention.ms'] }],
      })
      const entries = described.resources[0].configEntries.map(({ configName, configValue }) => `${configName}=${configValue}`)
      console.log(entries.sort().join(' '))
      await admin.alterConfigs({
        validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'cleanup.policy', value: 'delete' }] }],
      })
      const producer = kafka.producer()
      await producer.connect()
      await producer.send({ topic, messages: Array.from({ length: 10 }, () => ({ partition: 0, value: 'x' })) })
      await producer.disconnect()
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '4' }] })
      const offsets = (await admin.fetchTopicOffsets(topic)).find(({ partition }) => partition === 0)
      console.log('offsets:', offsets.low, 'to', offsets.high)
      await admin.setOffsets({ groupId: name, topic, partitions: [{ partition: 0, offset: '7' }] })
      const committed = await admin.fetchOffsets({ groupId: name, topics: [topic] })
      console.log('committed:', committed[0].partitions.find(({ partition }) => partition === 0).offset)
      const groups = (await admin.listGroups()).groups.map(({ groupId }) => groupId)
      console.log('listed:', groups.includes(name))
      await admin.deleteGroups([name])
      await admin.deleteTopics({ topics: [topic] })
      console.log('left:', (await admin.listTopics()).includes(topic))
    })
  },
}

scenes[scene]().then(
  () => process.exit(0),
  error => {
    console.error(error)
    process.exit(1)
  },
)
