"""Talks in ten languages, with summaries that are true of them and answers that are not. Made up for these tests.

`true` ones quote, shorten or reword; `false` ones are what weak models give: general talk, our own instruction, things
that were never said. Word salad is made of the true ones by `salads`."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from memory.plugins.lcm.source_lines import SourceMessage, SummarySource, message_source
from openvibe.engines.llm.tokens import count_tokens

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Talk:
    """What was said, `Name: words` a line, and answers of models about it."""

    language: str
    lines: tuple[str, ...]
    true: tuple[str, ...]
    false: tuple[str, ...]

    @property
    def source(self) -> SummarySource:
        return message_source(self.messages, chunk_tokens=20_000)

    @property
    def messages(self) -> list[SourceMessage]:
        said = [line.partition(": ") for line in self.lines]
        return [
            SourceMessage(NOON + timedelta(minutes=at), "user", name, text, count_tokens(text), seq=at + 1)
            for at, (name, _, text) in enumerate(said)
        ]


TALKS = (
    Talk(
        "English",
        (
            "Mara: The supplier in Leeds says the slates come two weeks late, so the roof cannot be closed "
            "before Easter.",
            "Tom: Then we should cover it with a tarpaulin. I saw one at Hoskins for 320 pounds.",
            "Mara: Fine, but check whether it holds in a storm. Last year the cheap one was torn in one night.",
            "Tom: Hoskins says up to 90 km/h. I would take the heavier one, 410 pounds.",
            "Mara: Take the heavier one. And the scaffolding stays up until the slates are on.",
            "Priya: The scaffolding costs us 55 pounds a day, please do not forget that.",
            "Mara: I know. Better than taking it down twice. Who calls the insurer?",
            "Priya: I do, tomorrow morning. They want photos of the open roof.",
            "Tom: The photos are in the folder roof-march, I took them on Monday.",
        ),
        (
            "The slates from Leeds come two weeks late, so the roof cannot be closed before Easter. Mara decided "
            "to take "
            "the heavier tarpaulin from Hoskins for 410 pounds. The scaffolding stays up until the slates are on.",
            "Because the supplier in Leeds is late by two weeks, the team covers the open roof with a heavy tarpaulin "
            "(410 pounds, Hoskins). Scaffolding remains, though Priya warns it costs 55 pounds per day.",
            "Priya will call the insurer tomorrow morning; Tom's photos of the roof are in the folder roof-march.",
            "The delay of the delivery pushes the roof past Easter. Mara preferred the stronger cover, since a "
            "cheap one "
            "was torn last year in a storm, and wants the scaffolding kept rather than taken down twice.",
            "Mara: Take the heavier one. Priya: The scaffolding costs us 55 pounds a day.",
        ),
        (
            "The conversation is about a project. The participants discuss various aspects and share their "
            "opinions in a "
            "friendly and constructive way.",
            "Your conversation is an example of a multi-round conversation.",
            "This is a list of 274 sentences that are short and to the point.",
            "Mara and Tom agreed on a budget of 999 euros and 77 roofs, and the mayor will open the building in June.",
            "Mara told Tom about her holiday in Portugal. They went swimming every day and ate grilled sardines.",
            "The user asked the assistant to explain how photosynthesis works. Plants turn light into sugar.",
        ),
    ),
    Talk(
        "English, support",
        (
            "Omar: Since the update to 4.7.2 the export stops after 10,000 rows with error E-4012.",
            "Lena: Is that in the browser or on the command line?",
            "Omar: Both. In the log it says worker timeout after 30 seconds.",
            "Lena: We set worker_timeout to 30 in that release. Try worker_timeout = 300 in /etc/harbor/app.ini.",
            "Omar: That helped, 84,000 rows came out. But it takes eleven minutes now.",
            "Lena: The index on created_at is missing since the migration. I opened ticket HB-2291 for it.",
            "Omar: Can we have the fix before the audit on 14 May?",
            "Lena: Yes, it goes into 4.7.3, which is due on 6 May.",
        ),
        (
            "Since 4.7.2 exports stop after 10,000 rows with E-4012, because worker_timeout was set to 30 "
            "seconds. Omar "
            "raised it to 300 in /etc/harbor/app.ini, which helped.",
            "Lena found that an index on created_at is missing since the migration and opened HB-2291; the fix "
            "goes into "
            "4.7.3, due on 6 May, before the audit of 14 May.",
            "Exporting failed with a timeout after the update. A longer worker_timeout got all 84,000 rows out, though "
            "slowly (eleven minutes), due to a missing index. Version 4.7.3 repairs that on 6 May.",
            "Omar needs the fix before his audit on 14 May, and Lena promises it with 4.7.3.",
        ),
        (
            "The user reports a bug. The assistant helps the user to solve the problem and everyone is satisfied.",
            "Lena told Omar to reinstall Windows and to buy a new printer from Contoso for 250 dollars.",
            "Keep decisions and the reasons for them, constraints and preferences in their exact words, exact values.",
            "Here you can see how important it is to communicate well within a company at any time of the year.",
        ),
    ),
    Talk(
        "German",
        (
            "Jonas: Der Estrich im Erdgeschoss ist noch feucht, die Messung ergab 3,2 Prozent.",
            "Frau Albers: Unter 2 Prozent muss er sein, sonst legt der Parkettleger nicht.",
            "Jonas: Dann brauchen wir zwei Trockner. Bei Melzer kosten die 18 Euro am Tag.",
            "Frau Albers: Beschlossen. Bitte gleich morgen aufstellen, und die Fenster bleiben zu.",
            "Jonas: Wer liest den Stromzähler ab? Die Mieterin will den Strom nicht zahlen.",
            "Frau Albers: Ich lese ihn ab und schreibe Frau Dogan, dass wir den Strom übernehmen.",
            "Jonas: Der Parkettleger kommt dann frühestens am 23. März.",
        ),
        (
            "Der Estrich im Erdgeschoss ist mit 3,2 Prozent noch zu feucht, er muss unter 2 Prozent haben. Frau "
            "Albers hat "
            "beschlossen, zwei Trockner von Melzer für 18 Euro am Tag aufzustellen.",
            "Jonas stellt morgen zwei Trockner auf, die Fenster bleiben zu. Den Strom übernimmt die "
            "Bauherrschaft, Frau "
            "Albers liest den Zähler ab und schreibt Frau Dogan.",
            "Weil der Estrich feucht ist, kommt der Parkettleger frühestens am 23. März.",
            "Zum Trocknen des Estrichs werden Geräte bei Melzer gemietet; die Mieterin muss den Strom nicht zahlen.",
        ),
        (
            "In diesem Gespräch geht es um verschiedene Themen. Die Beteiligten tauschen sich freundlich aus.",
            "Jonas und Frau Albers planen eine Reise nach Italien, der Flug kostet 640 Euro.",
            "Eine gute Zusammenfassung ist kurz, verständlich und enthält alle wichtigen Punkte.",
            "Der Bürgermeister lobte den neuen Kindergarten, in dem 120 Kinder spielen und lernen.",
        ),
    ),
    Talk(
        "French",
        (
            "Élise: Le traiteur demande un acompte de 600 euros avant vendredi.",
            "Karim: C'est cher. Avez-vous comparé avec la maison Vautrin ?",
            "Élise: Oui, Vautrin ne livre pas à Bonneval le dimanche.",
            "Karim: Alors on garde le premier traiteur. Il faut prévoir douze repas sans gluten.",
            "Élise: Douze ? La liste en compte neuf.",
            "Karim: Trois invités se sont ajoutés hier, je mets la liste à jour ce soir.",
            "Élise: D'accord. Je verse l'acompte demain et je demande une facture.",
        ),
        (
            "Le traiteur demande un acompte de 600 euros avant vendredi. Vautrin ne livre pas à Bonneval le "
            "dimanche, on "
            "garde donc le premier traiteur.",
            "Élise verse l'acompte demain et demande une facture. Karim met la liste à jour : douze repas sans "
            "gluten au "
            "lieu de neuf.",
            "Trois invités de plus, soit douze repas sans gluten ; Karim corrige la liste ce soir.",
            "Le devis a été comparé avec la maison Vautrin, qui ne livre pas le dimanche ; le traiteur est gardé.",
        ),
        (
            "Cette conversation parle de plusieurs sujets intéressants et les participants sont très contents.",
            "Élise a acheté une voiture rouge à Marseille pour 14 000 euros et Karim la conduit.",
            "Un résumé doit être court, clair et fidèle au texte, sans ajouter d'opinion personnelle.",
        ),
    ),
    Talk(
        "Spanish",
        (
            "Lucía: El riego del invernadero falló anoche, la bomba marca el error 17.",
            "Andrés: El filtro está lleno de arena otra vez. Lo limpié en enero.",
            "Lucía: Necesitamos un filtro de malla fina. En Riegos Salas cuesta 74 euros.",
            "Andrés: Compra dos, así tenemos uno de repuesto.",
            "Lucía: De acuerdo. Los tomates del bloque B están secos, los riego a mano hoy.",
            "Andrés: Y apunta revisar el filtro cada dos semanas.",
        ),
        (
            "El riego del invernadero falló anoche con el error 17 porque el filtro está lleno de arena.",
            "Lucía compra dos filtros de malla fina en Riegos Salas, a 74 euros; uno queda de repuesto.",
            "Los tomates del bloque B están secos y hoy se riegan a mano. El filtro se revisa cada dos semanas.",
            "Andrés limpió el filtro en enero, pero la arena volvió a parar la bomba.",
        ),
        (
            "La conversación trata de varios temas importantes para la empresa y sus clientes.",
            "Lucía y Andrés compraron una casa en Valencia por 230.000 euros con vistas al mar.",
            "El fútbol es el deporte más popular del mundo y se juega con once jugadores.",
        ),
    ),
    Talk(
        "Russian",
        (
            "Ирина: Насос на второй скважине остановился в три часа ночи.",
            "Павел: Сработала защита, двигатель перегрелся. Нужно заменить подшипник.",
            "Ирина: Сколько стоит подшипник и когда он будет?",
            "Павел: Четыре тысячи рублей, привезут в четверг из Твери.",
            "Ирина: Хорошо, заказывай. До четверга воду берём из первой скважины.",
            "Павел: Тогда поливать можно только вечером, давления не хватит на всё.",
        ),
        (
            "Насос на второй скважине остановился ночью, двигатель перегрелся, нужно заменить подшипник.",
            "Павел заказывает подшипник за четыре тысячи рублей, его привезут из Твери в четверг.",
            "До четверга воду берут из первой скважины, поэтому поливать можно только вечером.",
        ),
        (
            "Этот разговор посвящён разным темам, и участники остались очень довольны общением.",
            "Ирина купила билеты в театр на субботу, спектакль длится два часа с антрактом.",
            "Хорошее резюме должно быть кратким и содержать основные мысли автора текста.",
        ),
    ),
    Talk(
        "Chinese",
        (
            "王敏: 三号仓库的温度昨天升到八度，疫苗不能超过五度。",
            "李强: 压缩机坏了，维修公司说明天上午来。",
            "王敏: 那今天先把疫苗搬到一号仓库。",
            "李强: 一号仓库只剩两个架子，放不下全部四百箱。",
            "王敏: 放不下的送到南山医院，我给刘主任打电话。",
            "李强: 好，我安排冷藏车，下午三点出发。",
        ),
        (
            "三号仓库的压缩机坏了，温度升到八度，疫苗要先搬到一号仓库。",
            "一号仓库放不下全部四百箱，其余送到南山医院，王敏给刘主任打电话。",
            "李强安排冷藏车下午三点出发，维修公司明天上午来修压缩机。",
        ),
        (
            "这是一次非常愉快的对话，大家交流了很多想法和经验。",
            "他们计划去北京旅游，参观长城和故宫，还要吃烤鸭。",
            "好的总结应该简洁明了，包含文章的主要观点。",
        ),
    ),
    Talk(
        "Japanese",
        (
            "佐藤: 新しい看板の見積もりが届きました。二十八万円です。",
            "高橋: 予算は二十五万円なので、少し高いですね。",
            "佐藤: 照明をなくせば二十四万円になるそうです。",
            "高橋: 夜も店を開けるので、照明は必要です。大きさを小さくできませんか。",
            "佐藤: 幅を二メートルにすれば予算に入ります。業者に頼みます。",
            "高橋: お願いします。設置は四月十日までに終わらせてください。",
        ),
        (
            "新しい看板の見積もりは二十八万円で、予算の二十五万円より高い。",
            "夜も店を開けるので照明は必要であり、幅を二メートルに小さくして予算に入れる。",
            "佐藤が業者に頼み、設置は四月十日までに終わらせる。",
        ),
        (
            "この会話はとても楽しく、参加者は多くのことを学びました。",
            "彼らは京都へ旅行し、寺を見て抹茶を飲む計画を立てた。",
            "良い要約は短く、分かりやすく、重要な点を含みます。",
        ),
    ),
    Talk(
        "Italian",
        (
            "Giulia: Il forno nuovo arriva giovedì, ma la porta del laboratorio è larga solo 78 centimetri.",
            "Marco: Il forno è largo 82. Bisogna togliere il telaio della porta.",
            "Giulia: Chiamo il falegname Bertoni, l'ultima volta ha chiesto 140 euro.",
            "Marco: Va bene. E la presa deve essere da 32 ampere, quella vecchia non basta.",
            "Giulia: L'elettricista viene mercoledì alle otto.",
        ),
        (
            "Il forno nuovo è largo 82 centimetri e la porta solo 78, quindi bisogna togliere il telaio della porta.",
            "Giulia chiama il falegname Bertoni, che l'ultima volta ha chiesto 140 euro.",
            "Mercoledì alle otto viene l'elettricista per la presa da 32 ampere, giovedì arriva il forno.",
        ),
        (
            "La conversazione è molto interessante e i partecipanti parlano di tante cose diverse.",
            "Giulia e Marco vanno in vacanza in Sardegna con il traghetto da Genova.",
        ),
    ),
    Talk(
        "Dutch",
        (
            "Sanne: De offerte voor de zonnepanelen is binnen: 24 panelen voor 9.150 euro.",
            "Bram: Dat is inclusief omvormer? De vorige offerte was zonder.",
            "Sanne: Ja, inclusief omvormer en montage. Maar het dak moet eerst gekeurd worden.",
            "Bram: Ik bel Dakwerk Noord voor de keuring. Vorige keer duurde dat drie weken.",
            "Sanne: De subsidie loopt tot 30 juni, dus we moeten opschieten.",
        ),
        (
            "De offerte voor 24 zonnepanelen is 9.150 euro, inclusief omvormer en montage.",
            "Bram belt Dakwerk Noord om het dak te laten keuren, wat vorige keer drie weken duurde.",
            "Er is haast, want de subsidie loopt tot 30 juni en het dak moet eerst gekeurd worden.",
        ),
        (
            "Dit gesprek gaat over veel verschillende onderwerpen en iedereen was erg tevreden.",
            "Sanne en Bram gaan naar het strand en eten daar vis met friet.",
        ),
    ),
    Talk(
        "English, meeting",
        (
            "Industrial Designer: Um so the remote should have fewer buttons, people only use the volume and "
            "channel ones.",
            "Project Manager: {vocalsound} Hmm .",
            "Marketing: In our survey seventy five percent of users find most remotes ugly.",
            "User Interface: We could use a scroll wheel for the volume, like on a music player.",
            "Project Manager: The production cost must stay below twelve fifty, so no LCD display.",
            "Marketing: {disfmarker} Yeah .",
            "Industrial Designer: A rubber case is cheap and it doesn't break when you drop it.",
            "User Interface: But then the scroll wheel needs another chip, that is more expensive.",
            "Project Manager: Okay so we keep plain push buttons and make the case rubber, yellow like the "
            "company logo.",
            "Marketing: And the batteries, can we do kinetic? People hate changing batteries.",
            "Project Manager: Kinetic is too expensive. We stay with two double A batteries.",
        ),
        (
            "The team decided on plain push buttons and a yellow rubber case, because a scroll wheel needs "
            "another chip "
            "and production cost must stay below twelve fifty.",
            "The Project Manager ruled out an LCD display and kinetic power as too expensive; the remote uses "
            "two double A "
            "batteries.",
            "According to the survey, seventy five percent of users find remotes ugly and use only volume and channel "
            "buttons.",
            "Rubber was chosen for the case since it is cheap and survives being dropped. Marketing asked for kinetic "
            "batteries, which were rejected for their price.",
            "Fewer buttons were proposed by the Industrial Designer. The case will be made of yellow rubber to "
            "match the "
            "logo of the company.",
        ),
        (
            "Write plain sentences in the language of the conversation. Name who said or decided what.",
            "You write the operational handoff of a long conversation. Whoever continues the work sees your text in "
            "place of these messages and has to take the right next step.",
            "The meeting was productive and the participants came up with a number of great ideas for the future.",
            "The Project Manager announced that Sandra Whitfield will lead the design team from September on.",
        ),
    ),
)


def salads(text: str) -> Iterator[str]:
    """The words of a true summary in no order, with their signs and without: mixed twice, backwards, by the
    alphabet."""
    words, chance = text.split(), random.Random(7)
    if len(words) < 8:
        return
    for mixed in (
        chance.sample(words, len(words)),
        chance.sample(words, len(words)),
        words[::-1],
        sorted(words, key=str.casefold),
    ):
        yield " ".join(mixed)
        yield re.sub(r"[.,;:]", "", " ".join(mixed)).lower()
